import os
import socket
import subprocess
import sys
import time

import pytest

from rag_cluster.errors import ModelError
from rag_cluster.models.locate import resolve_model


def test_a_folder_is_itself(tmp_path):
    assert resolve_model(str(tmp_path)) == str(tmp_path)


def test_a_package_is_found_without_importing_it(tmp_path, monkeypatch):
    folder = tmp_path / "package_with_a_model" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert resolve_model("package:package_with_a_model/model") == str(folder)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("package:no_such_package/model", "'no_such_package', which is not installed"),
        ("package:json/model", "'json' has no folder 'model'"),
        ("./no/such/folder", "'./no/such/folder' does not exist"),
        ("/no/such/folder", "'/no/such/folder' does not exist"),
        ("no/such/folder", "'no/such/folder' does not exist"),
        ("not an id/x", "neither a folder nor a hub id"),
    ],
)
def test_what_is_not_there_is_said(model, words):
    with pytest.raises(ModelError, match=words):
        resolve_model(model)


def test_a_file_is_not_a_model(tmp_path):
    file = tmp_path / "model.bin"
    file.write_bytes(b"")
    with pytest.raises(ModelError, match="is a file"):
        resolve_model(str(file))


def _resolve_elsewhere(cache, **environment):
    code = "from rag_cluster.models.locate import resolve_model as r; print(r('one/model'))"
    known = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=known | {"HF_HOME": str(cache)} | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_a_hub_that_does_not_answer_is_one_sentence_within_seconds(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        start = time.monotonic()
        done = _resolve_elsewhere(tmp_path, HF_ENDPOINT=endpoint)
    assert time.monotonic() - start < 60
    assert "'one/model' is neither a local folder nor in the local cache" in done.stderr


def test_the_cache_is_used_offline_when_it_is_complete(tmp_path):
    snapshot = tmp_path / "hub" / "models--one--model" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    refs = tmp_path / "hub" / "models--one--model" / "refs"
    refs.mkdir()
    (refs / "main").write_text("a" * 40)
    (snapshot / "config.json").write_text("{}")
    broken_off = _resolve_elsewhere(tmp_path, HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE forbids downloads" in broken_off.stderr
    (snapshot / "model.safetensors").write_bytes(b"")
    assert _resolve_elsewhere(tmp_path, HF_HUB_OFFLINE="1").stdout.strip() == str(snapshot)
