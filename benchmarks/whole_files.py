"""A BEIR folder whose records are pieces of files, as a folder of whole files.

    python -m benchmarks.whole_files FOLDER OUT [--files N]

Records `<file>_<n>` (as in the code of Anthropic's contextual retrieval cookbook) are joined in the
order of their numbers to `OUT/docs/<file>.txt`, each record a page. What is relevant is then a page
of a file, so that chunks can have the whole file as their document, and are judged as before. With
`--files` so many files are drawn by chance, and the queries whose judgements all lie in them stay.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rag_cluster.errors import DatasetError, RagClusterError
from rag_cluster.evaluate.datasets import read_qrels

HEADER = "query-id\tcorpus-id\tpage\tscore\n"


def convert(folder: Path, out: Path, files: int | None = None) -> int:
    """Writes the files, the queries and the qrels; the number of files.

    Raises DatasetError for a record whose id has no number, or one that its file lacks.
    """
    pieces = _pieces(folder / "corpus.jsonl")
    if files is not None:
        drawn = random.Random(0).sample(sorted(pieces), min(files, len(pieces)))
        pieces = {file: pieces[file] for file in drawn}
    (out / "docs").mkdir(parents=True, exist_ok=True)
    for file, own in pieces.items():
        if sorted(own) != list(range(len(own))):
            raise DatasetError(f"the records of {file!r} are not numbered 0 to {len(own) - 1}")
        text = "\f".join(own[number] for number in range(len(own)))
        (out / "docs" / f"{file}.txt").write_text(text, encoding="utf-8")
    shutil.copyfile(folder / "queries.jsonl", out / "queries.jsonl")
    (out / "qrels").mkdir(exist_ok=True)
    for qrels in sorted((folder / "qrels").glob("*.tsv")):
        judged: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        for qrel in read_qrels(qrels):
            file, number = _place(qrel.corpus_id)
            judged[qrel.query_id].append((file, number + 1, qrel.relevance))
        lines = [
            f"{query}\t{file}.txt\t{page}\t{relevance}\n"
            for query, own in judged.items()
            if all(file in pieces for file, _, _ in own)
            for file, page, relevance in own
        ]
        (out / "qrels" / qrels.name).write_text("".join([HEADER, *lines]), encoding="utf-8")
    return len(pieces)


def _pieces(corpus: Path) -> dict[str, dict[int, str]]:
    """The texts of the records of each file, by their numbers."""
    pieces: dict[str, dict[int, str]] = defaultdict(dict)
    for line in corpus.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        file, number = _place(record["_id"])
        pieces[file][number] = record["text"].replace("\f", " ")
    return pieces


def _place(record: str) -> tuple[str, int]:
    file, _, number = record.rpartition("_")
    if not file or not number.isdecimal():
        raise DatasetError(f"the record {record!r} is not called <file>_<number>")
    return file, int(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Converts one folder."""
    parser = argparse.ArgumentParser(prog="benchmarks.whole_files", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--files", type=int, metavar="N", help="default: all")
    options = parser.parse_args(arguments)
    try:
        print(f"{options.out}: {convert(options.folder, options.out, options.files)} files")
    except RagClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
