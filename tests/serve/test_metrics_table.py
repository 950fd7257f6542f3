"""The table of metrics, and what one process makes of it."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from serve.exports import merged
from serve.metrics import METRICS, REQUEST_SECONDS, REQUESTS, TOKENS, LocalMeters

ROOT = Path(__file__).parent.parent.parent
DASHBOARD = ROOT / "k8s/grafana-dashboard.json"
# What Ray itself exports of the queues before this project's code.
OF_RAY = {
    "ray_serve_deployment_queued_queries",
    "ray_serve_replica_processing_queries",
    "ray_serve_deployment_replica_healthy",
    "ray_serve_num_http_error_requests_total",
}
SUFFIXES = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_names_follow_the_conventions_of_prometheus():
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"rag_cluster_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.name.endswith("_seconds") == (metric.kind == "histogram")
        assert list(metric.buckets) == sorted(metric.buckets)
        assert not {"deployment", "replica", "application"} & set(metric.labels)  # Ray's own


def test_one_process_gives_the_text_of_prometheus():
    meters = LocalMeters()
    meters.add(REQUESTS, route="/v1/ask", status="200", key="acme")
    meters.add(REQUESTS, route="/v1/ask", status="200", key="acme")
    meters.observe(REQUEST_SECONDS, 0.3, route="/v1/ask")
    meters.add(TOKENS, 0, kind="prompt")
    found = families(asyncio.run(meters.text()))
    (sample,) = found["rag_cluster_requests"].samples
    assert sample.name == "rag_cluster_requests_total"
    assert sample.labels == {"route": "/v1/ask", "status": "200", "key": "acme"}
    assert sample.value == 2
    buckets = {
        one.labels["le"]: one.value
        for one in found["rag_cluster_request_seconds"].samples
        if one.name.endswith("_bucket")
    }
    assert (buckets["0.25"], buckets["0.5"], buckets["+Inf"]) == (0, 1, 1)
    assert not found["rag_cluster_tokens"].samples
    assert set(found) == {metric.name.removesuffix("_total") for metric in METRICS}


def test_a_label_that_is_missing_is_an_error():
    with pytest.raises(ValueError, match="label"):
        LocalMeters().add(REQUESTS, route="/v1/ask")


PAGE = """\
# HELP ray_rag_cluster_requests_total requests
# TYPE ray_rag_cluster_requests_total counter
ray_rag_cluster_requests_total{application="rag",replica="%s",route="/v1/ask"} 3.0
ray_rag_cluster_requests_total{application="other",replica="x",route="/v1/ask"} 5.0
ray_rag_cluster_requests_total{application="other",route="\\",application=\\"rag"} 7.0
# HELP ray_tasks tasks
# TYPE ray_tasks gauge
ray_tasks{application="rag"} 9.0
# HELP ray_rag_cluster_version_info version
# TYPE ray_rag_cluster_version_info gauge
ray_rag_cluster_version_info{application="rag",version="v%s"} 1.0
"""


def test_pages_of_several_nodes_are_merged_and_other_applications_left_out():
    text = merged([PAGE % ("a", 1), PAGE % ("b", 2)], "rag")
    found = families(text)
    assert set(found) == {"ray_rag_cluster_requests", "ray_rag_cluster_version_info"}
    counted = found["ray_rag_cluster_requests"].samples
    assert [(one.labels["replica"], one.value) for one in counted] == [("a", 3.0), ("b", 3.0)]
    assert text.count("# TYPE") == text.count("# HELP") == 2


def expressions():
    board = json.loads(DASHBOARD.read_text("utf-8"))
    panels = [one for row in board["panels"] for one in (row, *row.get("panels", ()))]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    variables = [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    return [*asked, *(one["query"] if isinstance(one, dict) else one for one in variables)]


def test_the_dashboard_asks_for_nothing_but_what_is_exported():
    exported = {
        f"ray_{metric.name}{suffix}": metric
        for metric in METRICS
        for suffix in SUFFIXES[metric.kind]
    }
    shown = set()
    for expression in expressions():
        names = set(re.findall(r"\bray_\w+", expression))
        assert names, expression
        assert names <= set(exported) | OF_RAY, expression
        shown |= {exported[name].name for name in names if name in exported}
        for name, matchers in re.findall(r"\b(ray_rag_\w+)\{([^}]*)\}", expression):
            asked = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", matchers))
            assert asked <= {*exported[name].labels, "application"}, expression
    assert shown == {metric.name for metric in METRICS}


def test_what_the_dashboard_asks_of_ray_is_what_ray_shows_itself():
    from ray.dashboard.modules.metrics import dashboards

    folder = Path(next(iter(dashboards.__path__)))
    own = "".join(path.read_text("utf-8") for path in folder.glob("serve*_panels.py"))
    asked = {name for one in expressions() for name in re.findall(r"\bray_serve_\w+", one)}
    assert asked <= OF_RAY
    assert [name for name in asked if name not in own] == []
