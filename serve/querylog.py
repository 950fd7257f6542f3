"""One JSON line for every query, written beside the queries by a thread.

`rag_cluster.querylog` reads the lines. Of a question a line has the text only where
`service.log.text` is set; else a hash with the folder's salt, which tells that a question was asked
before and not what it was.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import hmac
import json
import logging
import os
import queue
import re
import secrets
import socket
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_cluster.answer.found import rounded
from rag_cluster.answer.writing import Answer
from rag_cluster.config import Config
from rag_cluster.querylog import normal
from serve.logfile import LogFile
from serve.metrics import LINES_LOST, Meters
from serve.record import Record

log = logging.getLogger(__name__)

# Queries whose lines wait for the disk; beyond them lines are lost, and queries go on.
MOST_WAITING = 10_000
TOP_CHUNKS = 10
SALT = ".salt"
SALT_BYTES = 32
# A key, as `rag-cluster keys` makes them, that someone pasted into a question.
_KEY = re.compile(r"\brag-[\w-]{43}", re.ASCII)


class QueryLog:
    """Writes lines of queries. What cannot be written is counted; a reason is warned of once."""

    def __init__(self, config: Config, meters: Meters, replica: str | None = None) -> None:
        """`replica` names the file; without it the host and the process do."""
        wanted = config.service.log
        assert wanted.folder is not None  # the caller asked for a log
        self._config = config
        self._meters = meters
        self._folder = Path(wanted.folder)
        name = replica or f"{socket.gethostname()}-{os.getpid()}"
        self._file = LogFile(self._folder, name, wanted.max_mb * 2**20, wanted.files, wanted.days)
        self._salt: bytes | None = None
        self._warned: set[str] = set()
        self._waiting: queue.Queue[Record | None] = queue.Queue(MOST_WAITING)
        _try(self._folder)
        self._thread = threading.Thread(target=self._run, name="query-log", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def add(self, record: Record) -> None:
        """Has a query's line written; returns at once."""
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._lost("slow", "the disk is too slow")

    def close(self, timeout_s: float = 5.0) -> None:
        """Writes what waits, and ends."""
        atexit.unregister(self.close)
        if self._thread.is_alive():
            try:
                self._waiting.put(None, timeout=timeout_s)
            except queue.Full:
                return
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (record := self._waiting.get()) is not None:
            try:
                self._write(record)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a line, others come
                kind = f"{type(error).__name__} {getattr(error, 'errno', None)}"
                self._lost(kind, str(error) or kind)
        self._file.close()

    def _write(self, record: Record) -> None:
        # The folder may be deleted, and another replica make its salt anew.
        known = self._salt is not None and (self._folder / SALT).exists()
        if not known and not self._config.service.log.text:
            self._salt = salt_of(self._folder)
        content = line_of(record, self._config, self._salt)
        self._file.write(json.dumps(content, ensure_ascii=False, default=str))

    def _lost(self, kind: str, reason: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            log.warning(
                "a line of the query log in %s was lost (%s); further ones that are lost like it "
                "are only counted, in %s",
                self._folder, reason, LINES_LOST.name,
            )  # fmt: skip
        with contextlib.suppress(Exception):  # it must not end the thread
            self._meters.add(LINES_LOST)


def _try(folder: Path) -> None:
    """Warns where nothing can be written, before there is anything to be lost."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        log.warning("the query log cannot be written to %s (%s): lines will be lost", folder, error)


def line_of(record: Record, config: Config, salt: bytes | None) -> dict[str, Any]:
    """What stands in a query's line; with a salt its hash in place of the question."""
    asked: dict[str, Any] = {"question": _KEY.sub("rag-***", record.question)}
    if salt is not None:
        asked = {"question_hash": hash_of(record.question, salt)}
    ended = datetime.fromtimestamp(record.began + record.seconds, UTC)
    line: dict[str, Any] = {
        "id": record.id,
        "time": ended.isoformat(timespec="milliseconds"),
        "route": record.route,
        "key": record.caller.name,
        "version": record.version,
        "status": record.status,
        "code": record.code,
        "seconds": round(record.seconds, 6),
        **asked,
        "options": _options(record, config),
        "timings_ms": rounded(record.timings_ms),
    }
    if "first_token_s" in record.extra:
        line["first_token_ms"] = round(record.extra["first_token_s"] * 1e3, 3)
    if record.span is not None:
        line["trace_id"] = record.span.trace_id
    if record.found is not None:
        line["hits"] = len(record.found.hits)
        line["chunks"] = [
            {
                "chunk_id": hit.chunk_id,
                "doc_id": hit.doc_id,
                "uri": hit.uri,
                "pages": None if hit.pages is None else list(hit.pages),
                "score": round(hit.score, 6),
            }
            for hit in record.found.hits[:TOP_CHUNKS]
        ]
    return line | ({} if record.answer is None else _answer(record.answer))


def hash_of(question: str, salt: bytes) -> str:
    """16 hexadecimal digits, the same for questions that differ only in case and white space."""
    words = normal(question).encode("utf-8", "replace")
    return hmac.new(salt, words, hashlib.sha256).hexdigest()[:16]


def salt_of(folder: Path) -> bytes:
    """The folder's salt, which all replicas share; made where there is none. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SALT
    if not path.exists() or _emptied(path):
        _make_salt(path)
    salt = path.read_bytes()
    if len(salt) != SALT_BYTES:
        raise OSError(f"{path} is damaged: delete it, and another one is made")
    return salt


def _make_salt(path: Path) -> None:
    """Puts a whole salt there, or none; of several replicas the first one's stays."""
    made = _beside(path)
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(SALT_BYTES))
        try:
            os.link(made, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            made.rename(path)
    finally:
        made.unlink(missing_ok=True)


def _emptied(path: Path) -> bool:
    """Removes an empty salt, as earlier versions left it on a full disk; says whether it did."""
    aside = _beside(path)
    try:
        if path.stat().st_size:
            return False
        path.rename(aside)
    except FileNotFoundError:  # another replica did
        return True
    if aside.stat().st_size:  # and has put its own there since
        aside.rename(path)
        return False
    aside.unlink()
    return True


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}")


def _options(record: Record, config: Config) -> dict[str, Any]:
    """The settings that the query was answered with: its own, or else the service's."""
    own = record.options
    known: dict[str, Any] = {
        "top_k": own.top_k or config.retrieve.top_k,
        "channels": list(own.channels or config.retrieve.channels),
        "transform": own.transform or config.transform.kind,
        "rerank": own.rerank or config.rerank.kind,
        "filter": own.where,
        "deadline_ms": own.deadline and round((own.deadline - record.began) * 1e3),
    }
    if record.route != "search":
        warm = own.temperature
        known |= {
            "generator": config.generate.model or config.generate.kind,
            "max_tokens": own.max_tokens or config.generate.max_tokens,
            "temperature": config.generate.temperature if warm is None else warm,
        }
    return known


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "cited": [
            {"chunk_id": one.chunk_id, "doc_id": one.doc_id, "uri": one.uri, "page": one.page}
            for one in answer.citations
        ],
        "guardrails": {
            verdict.rule: {"status": verdict.status, "value": verdict.value}
            for verdict in answer.guardrails
        },
        "tokens": {"prompt": answer.prompt_tokens, "completion": answer.completion_tokens},
    }
