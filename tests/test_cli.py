"""The command line in process: its JSON, its exit codes, and one line for each mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_corpus import FAKE

from rag_cluster.cli import run
from rag_cluster.storage import Collection

Captured = pytest.CaptureFixture[str]

SETTINGS = [word for setting in FAKE for word in ("--set", setting)]
HIT_KEYS = {
    "rank",
    "score",
    "channels",
    "chunk_id",
    "doc_id",
    "uri",
    "title",
    "pages",
    "section",
    "text",
}
CITATION_KEYS = {"marker", "chunk_id", "doc_id", "uri", "page", "quote"}
QUERIES = {"q1": "when do roses bloom", "q2": "pressure limit of the pump"}
QRELS = {"q1": "garden.txt", "q2": "pump.md"}


def run_json(arguments: list[str], capsys: Captured) -> dict[str, object]:
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(arguments: list[str], capsys: Captured, code: int = 2) -> str:
    """What the command says on standard error when it ends with `code`; never a traceback."""
    assert run(arguments) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return " ".join(said.split())


def write_dataset(folder: Path, qrels: dict[str, str] = QRELS) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    queries = [json.dumps({"_id": key, "text": text}) for key, text in QUERIES.items()]
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n")
    lines = ["query-id\tcorpus-id\tscore", *(f"{q}\t{doc}\t1" for q, doc in qrels.items())]
    (folder / "qrels.tsv").write_text("\n".join(lines) + "\n")
    return ["--queries", str(folder / "queries.jsonl"), "--qrels", str(folder / "qrels.tsv")]


def test_search_prints_the_hits(collection: Path, capsys: Captured) -> None:
    arguments = ["search", "when do roses bloom", "--collection", str(collection), "--top-k", "3"]
    found = run_json(arguments, capsys)
    assert {"query", "hits", "timings_ms"} <= set(found)
    assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3]
    assert all(set(hit) == HIT_KEYS for hit in found["hits"])
    assert found["hits"][0]["uri"].endswith("/garden.txt")
    assert run(arguments) == 0
    shown = capsys.readouterr()
    assert "1. garden" in shown.out
    assert "\x1b" not in shown.out + shown.err


def test_search_filters(collection: Path, capsys: Captured) -> None:
    where = json.dumps({"year": {"gte": 2018}})
    arguments = ["search", "star colour", "--collection", str(collection), "--filter", where]
    found = run_json(arguments, capsys)
    assert {hit["uri"].partition("#")[2] for hit in found["hits"]} == {"r18", "r19"}


def test_ask_prints_answer_and_citations(collection: Path, capsys: Captured) -> None:
    arguments = ["ask", "when do roses bloom in June", "--collection", str(collection)]
    answer = run_json([*arguments, "--set", "generate.min_similarity=0.1"], capsys)
    assert {"question", "answer", "citations", "hits", "timings_ms"} <= set(answer)
    assert all(set(citation) == CITATION_KEYS for citation in answer["citations"])
    assert answer["citations"][0]["quote"] == "Tulips bloom in May and roses in June."
    assert answer["answer"].endswith("[1]")
    assert run([*arguments, "--set", "generate.min_similarity=0.1"]) == 0
    assert "garden.txt" in capsys.readouterr().out


def test_ingest_prints_its_summary_and_replaces_nothing_silently(
    corpus: Path, tmp_path: Path, capsys: Captured, ray_session: None
) -> None:
    arguments = ["ingest", str(corpus), "--collection", str(tmp_path / "c"), *SETTINGS]
    assert run([*arguments, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"collection", "version", "documents", "chunks", "seconds"} <= set(summary)
    assert summary["documents"] == {"ok": 23, "empty": 0, "failed": 1}
    code = run([*arguments, "--set", "max_failed_fraction=0"])
    shown = capsys.readouterr()
    assert code == 3
    assert "published v000002" in shown.out
    assert "documents failed" in shown.out
    assert "1 of 24 documents failed" in shown.err
    assert "--failures" in shown.err
    assert "\x1b" not in shown.out + shown.err
    assert Collection.open(tmp_path / "c").version == "v000002"


def test_evaluate_prints_metrics(collection: Path, tmp_path: Path, capsys: Captured) -> None:
    arguments = ["evaluate", "--collection", str(collection), *write_dataset(tmp_path)]
    measured = run_json([*arguments, "--metrics", "Success@1 nDCG@10"], capsys)
    assert {"metrics", "queries", "latency_ms"} <= set(measured)
    assert measured["metrics"] == {"Success@1": 1.0, "nDCG@10": 1.0}
    assert measured["queries"] == 2
    assert set(measured["latency_ms"]) == {"p50", "p95", "p99"}
    assert run(arguments) == 0
    assert "Success@10" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ([], {"version", "documents", "chunks", "encoder", "failures", "config"}),
        (["--failures"], {"failures"}),
        (["--chunks"], {"chunks"}),
        (["--document", "garden.txt"], {"document"}),
        (["--document", "garden.txt", "--chunks"], {"document", "chunks"}),
        (["--audit"], {"problems", "chunks", "documents"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_inspect(options: list[str], keys: set[str], collection: Path, capsys: Captured) -> None:
    arguments = ["inspect", "--collection", str(collection), *options]
    assert keys <= set(run_json(arguments, capsys))
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert shown.strip()
    assert "\x1b" not in shown


def test_inspect_finds_a_damaged_file(corpus: Path, tmp_path: Path, capsys: Captured,
                                      ray_session: None) -> None:  # fmt: skip
    path = tmp_path / "c"
    assert run(["ingest", str(corpus / "garden.txt"), "--collection", str(path), *SETTINGS]) == 0
    shard = Collection.open(path).shard_path("dense", 0)
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    assert run(["inspect", "--collection", str(path), "--audit"]) == 1
    assert "differs from its checksum" in capsys.readouterr().out


def test_config_prints_every_key_with_its_comment(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "mine.yaml").write_text("chunk: {size: 90}\n")
    arguments = ["config", "--config", str(tmp_path / "mine.yaml"), "--set", "chunk.overlap=5"]
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    tree = yaml.safe_load(shown)
    assert (tree["chunk"]["size"], tree["chunk"]["overlap"]) == (90, 5)
    keys = [line for line in shown.splitlines() if not line.strip().startswith("#")]
    comments = [line for line in shown.splitlines() if line.strip().startswith("#")]
    assert len(keys) == len(comments)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("chunk.sise=90", "did you mean 'chunk.size'?"),
        ("retreive.top_k=3", "did you mean 'retrieve"),
        ("chunk.size=many", "'chunk.size': Input should be a valid integer"),
        ("chunk.overlap=500", "must be smaller than size"),
        ("chunk.size", "write key.path=VALUE"),
    ],
)
def test_a_wrong_setting_is_named(setting: str, said: str, capsys: Captured) -> None:
    assert said in refused(["config", "--set", setting], capsys)


def test_a_source_that_is_not_there(tmp_path: Path, capsys: Captured) -> None:
    to = ["--collection", str(tmp_path / "c"), *SETTINGS]
    assert "none" in refused(["ingest", str(tmp_path / "none"), *to], capsys)
    (tmp_path / "empty").mkdir()
    assert "empty" in refused(["ingest", str(tmp_path / "empty"), *to], capsys)
    assert not (tmp_path / "c").exists()


def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    """As another user, for root may read everything."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    code = (
        "import os, sys; from rag_cluster.config import Config;"
        "from rag_cluster.parse.sources import list_files\n"
        "os.geteuid() or os.setuid(65534)\n"
        "try: list_files([sys.argv[1]], Config())\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o711)
    closed.chmod(0 if not is_root() else 0o700)
    done = subprocess.run([sys.executable, "-c", code, closed], capture_output=True, text=True)
    closed.chmod(0o700)
    assert done.stdout.startswith("SourceError"), done
    assert "ermission" in done.stdout


def is_root() -> bool:
    import os

    return os.geteuid() == 0


@pytest.mark.parametrize(
    "arguments",
    [["search", "x"], ["ask", "x"], ["inspect"], ["evaluate"]],
    ids=lambda words: words[0],
)
def test_a_collection_that_is_not_there(
    arguments: list[str], tmp_path: Path, capsys: Captured
) -> None:
    more = write_dataset(tmp_path) if arguments == ["evaluate"] else []
    said = refused([*arguments, "--collection", str(tmp_path / "c"), *more], capsys)
    assert "there is no collection at" in said
    assert "rag-cluster ingest" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "embed.model=fake:32"], "was made with embed.model = 'fake:64'"),
        (["--set", "embed.normalize=false"], "was made with embed.normalize"),
        (["--set", "retrieve.chanels=[bm25]"], "did you mean 'retrieve.channels'?"),
        (["--filter", '{"yaer": 2001}'], "year"),
        (["--filter", "{year: 2001"], "--filter is not JSON"),
        (["--filter", "[1]"], "--filter must be a JSON object"),
        (["--filter", '{"year": {"gte": "soon"}}'], "year"),
        (["--filter", '{"year": {"about": 2001}}'], "about"),
        (["--top-k", "0"], "--top-k"),
        (["--set", "rerank.kind=cross_encoder"], "the reranker cross_encoder needs a model"),
        (["--set", "generate.kind=openai"], "generate.model"),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else "",
)
def test_a_query_that_cannot_be_run(
    options: list[str], said: str, collection: Path, capsys: Captured
) -> None:
    assert said in refused(["ask" if "generate" in options[1] else "search", "star",
                            "--collection", str(collection), *options], capsys)  # fmt: skip


def test_an_empty_query(collection: Path, capsys: Captured) -> None:
    for command in ("search", "ask"):
        assert "is empty" in refused([command, "  ", "--collection", str(collection)], capsys)


def test_malformed_queries_and_qrels(collection: Path, tmp_path: Path, capsys: Captured) -> None:
    files = write_dataset(tmp_path)
    arguments = ["evaluate", "--collection", str(collection), *files]
    assert "nDGC@10" in refused([*arguments, "--metrics", "nDGC@10"], capsys)
    queries = tmp_path / "queries.jsonl"
    queries.write_text(queries.read_text() + '{"_id": "q3", "text": \n')
    assert "queries.jsonl, line 3 is not JSON" in refused(arguments, capsys)
    write_dataset(tmp_path)
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tgarden.txt\tgood\n")
    assert "qrels.tsv, line 2" in refused(arguments, capsys)


def test_qrels_that_match_no_document(collection: Path, tmp_path: Path, capsys: Captured) -> None:
    files = write_dataset(tmp_path, {"q1": "sea.pdf", "q2": "sky.pdf"})
    said = refused(["evaluate", "--collection", str(collection), *files], capsys)
    assert "none of the 2 documents of the qrels" in said
    assert "sea.pdf" in said


def test_a_malformed_record_is_a_failed_row_with_its_line(
    tmp_path: Path, capsys: Captured, ray_session: None
) -> None:
    (tmp_path / "r.jsonl").write_text('{"_id": "a", "text": "Rain."}\n\n{"_id": "b", "text"\n')
    path = str(tmp_path / "c")
    assert run(["ingest", str(tmp_path / "r.jsonl"), "--collection", path, *SETTINGS]) == 0
    capsys.readouterr()
    (group,) = run_json(["inspect", "--collection", path, "--failures"], capsys)["failures"]
    (row,) = group["documents"]
    assert "line 3" in f"{row['uri']} {row['detail']}"


def test_inspecting_a_document_that_is_not_there(collection: Path, capsys: Captured) -> None:
    arguments = ["inspect", "--collection", str(collection), "--document", "sea.pdf"]
    assert "no document 'sea.pdf'" in refused(arguments, capsys)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from rag_cluster.cli import run; assert run(['--help']) == 0;"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ingest" in done.stdout
    heavy = {"torch", "faiss", "ray", "sentence_transformers", "transformers", "pyarrow", "numpy",
             "pandas", "pymupdf", "trafilatura", "bm25s", "pydantic", "yaml"}  # fmt: skip
    assert not heavy & set(done.stderr.split())


def test_usage_mistakes_end_with_2(capsys: Captured) -> None:
    assert "No such command" in refused(["serch"], capsys)
    assert "--collection" in refused(["search", "x"], capsys)
    assert "No such option" in refused(["search", "x", "--colection", "c"], capsys)
