"""Metrics of replicas, by way of Ray's agents: the names and labels that the dashboard asks for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from serve.metrics import METRICS

SCRIPT = Path(__file__).with_name("counting_on_ray.py")
# Ray reports every second in place of every ten.
QUICK = {"RAY_metrics_report_interval_ms": "1000", "RAY_ADDRESS": ""}


@pytest.fixture(scope="module")
def told():
    """What is exported of two applications, of which the first one counted."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=os.environ | QUICK, cwd=SCRIPT.parent.parent.parent,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.parametrize("when", ["one", "later"])
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_exported_under_its_name_and_labels_and_stays(told, metric, when):
    family = families(told[when])[f"ray_{metric.name}".removesuffix("_total")]
    assert family.type == metric.kind
    for sample in family.samples:
        assert sample.labels["application"] == "one"
        assert sample.labels["deployment"] == "Counting"
        assert sample.labels["replica"]
        assert {sample.labels[name] for name in metric.labels} <= {"some"}
    values = {sample.name: sample.value for sample in family.samples}
    match metric.kind:
        case "counter":
            assert values == {f"ray_{metric.name}": 3}
        case "gauge":
            assert values == {f"ray_{metric.name}": 5}
        case "histogram":
            buckets = {
                float(one.labels["le"]): one.value
                for one in family.samples
                if one.name == f"ray_{metric.name}_bucket"
            }
            assert (buckets[0.25], buckets[0.5]) == (0, 1)
            assert values[f"ray_{metric.name}_count"] == 1


def test_another_application_is_not_told(told):
    assert told["two"] == ""
