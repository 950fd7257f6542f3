"""Cluster files: well-formed, consistent with one another, and naming things that exist."""

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml

from rag_cluster.config import Config, load

ROOT = Path(__file__).parent.parent
MANIFESTS = sorted((ROOT / "k8s").glob("*.yaml"))


def read(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def pod_templates(spec: dict) -> list[dict]:
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


def ray_clusters() -> dict[str, dict]:
    return {
        "raycluster": read("k8s/raycluster.yaml")["spec"],
        "rayjob-ingest": read("k8s/rayjob-ingest.yaml")["spec"]["rayClusterSpec"],
        "rayservice": read("k8s/rayservice.yaml")["spec"]["rayClusterConfig"],
    }


def applications() -> dict[str, dict]:
    inside = yaml.safe_load(read("k8s/rayservice.yaml")["spec"]["serveConfigV2"])
    found = {"rayservice": inside, "config": read("serve/config.yaml")}
    return {name: tree["applications"][0] for name, tree in found.items()}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_is_one_named_object(path):
    manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(manifest) == {"apiVersion", "kind", "metadata", "spec"}
    assert manifest["metadata"]["name"].startswith("rag-cluster")


@pytest.mark.parametrize("name", ["raycluster", "rayjob-ingest", "rayservice"])
def test_every_pod_mounts_the_same_volume_and_runs_the_same_image(name):
    claim = read("k8s/storage.yaml")["metadata"]["name"]
    for group in pod_templates(ray_clusters()[name]):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert volumes["data"]["persistentVolumeClaim"] == {"claimName": claim}
        assert mounts["data"] == "/data"
        assert set(mounts) == set(volumes)
        assert container["image"] == "REGISTRY/rag-cluster:0.1.0"


@pytest.mark.parametrize("name", ["raycluster", "rayjob-ingest", "rayservice"])
def test_requests_equal_limits_and_shared_memory_fits(name):
    for group in pod_templates(ray_clusters()[name]):
        (container,) = group["template"]["spec"]["containers"]
        assert container["resources"]["requests"] == container["resources"]["limits"]
        for volume in group["template"]["spec"]["volumes"]:
            if "emptyDir" in volume:
                assert volume["emptyDir"]["medium"] == "Memory"
                assert int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi")) < int(
                    container["resources"]["limits"]["memory"].removesuffix("Gi")
                )


@pytest.mark.parametrize("name", ["raycluster", "rayjob-ingest", "rayservice"])
def test_the_ray_version_is_that_of_the_constraints(name):
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    version = ray_clusters()[name]["rayVersion"]
    assert f"ray=={version}" in pins
    assert f"rayproject/ray:{version}-py311" in (ROOT / "k8s/Dockerfile").read_text("utf-8")
    assert read("cluster.yaml")["docker"]["image"] == f"rayproject/ray:{version}-py311"


def test_the_ingest_job_names_settings_and_files_that_exist():
    words = read("k8s/rayjob-ingest.yaml")["spec"]["entrypoint"].split()
    assert words[:3] == ["python", "-m", "jobs.ingest"]
    settings = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    config = load(ROOT / words[words.index("--config") + 1], settings)
    assert config.index.shards == 8
    assert config.resources.address == "auto"


def test_cluster_yaml_is_what_ray_up_takes():
    schema = json.loads((files("ray.autoscaler") / "ray-schema.json").read_text("utf-8"))
    cluster = read("cluster.yaml")
    jsonschema.validate(cluster, schema)
    assert cluster["head_node_type"] in cluster["available_node_types"]


def test_local_configuration_is_the_defaults():
    assert load(ROOT / "configs/local.yaml") == Config()


def test_gpu_configuration_loads_and_its_chunks_fit_the_encoder():
    config = load(ROOT / "configs/gpu.yaml")
    assert config.resources.encoder_gpus == 1
    # bge-base reads 512 tokens, of which two are the model's own.
    assert config.chunk.size + config.enrich.max_tokens + 2 <= 512


@pytest.mark.parametrize("name", ["rayservice", "config"])
def test_an_application_has_keys_that_the_configuration_knows(name):
    from importlib import import_module

    from rag_cluster.config import read_tree

    application = applications()[name]
    module, function = application["import_path"].split(":")
    assert callable(getattr(import_module(module), function))
    given = dict(application["args"])
    assert given.pop("collection").startswith("/data/")
    file = ROOT / given.pop("config")
    tree = read_tree(file, [f"{key}={value}" for key, value in given.items()])
    service = load(base=tree).service
    assert service.host == "0.0.0.0"
    assert service.keys == "/keys/keys.yaml"


def test_both_ways_to_deploy_listen_alike():
    inside = yaml.safe_load(read("k8s/rayservice.yaml")["spec"]["serveConfigV2"])
    assert inside["http_options"] == read("serve/config.yaml")["http_options"]


def test_the_files_of_the_service_are_what_ray_reads():
    from ray.serve.schema import ServeDeploySchema

    ServeDeploySchema.model_validate(read("serve/config.yaml"))
    ServeDeploySchema.model_validate(
        yaml.safe_load(read("k8s/rayservice.yaml")["spec"]["serveConfigV2"])
    )
