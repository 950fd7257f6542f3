"""The Ray cluster that an ingest runs on: joining or starting one, sharing it out, its errors."""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import math
import os
import re
import socket
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ray
import ray.exceptions

from rag_cluster import errors
from rag_cluster.config import Config
from rag_cluster.errors import ConfigError, IngestError, RagClusterError, ServiceError

# About a batch of chunks, so that one large file of records is shared among all encoders.
BLOCK_BYTES = 256 * 2**10
DISK_FULL = "No space left on device"
CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Size:
    """CPUs and GPUs of the cluster."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class Plan:
    """How many workers each kind of step gets, and what of the cluster each of them takes."""

    parsers: int
    parse_cpus: float
    encoders: int
    encoder_cpus: float
    encoder_gpus: float
    encoder_threads: int
    task_cpus: float
    engine_cpus: float


# Loading a model takes a worker as long as encoding so many bytes of files.
BYTES_OF_AN_ENCODER = 256 * 2**10


def share(
    config: Config, size: Size, files_bytes: int | None = None, encoding_steps: int = 1
) -> Plan:
    """A share for every step, so that none waits for another's workers to end.

    `files_bytes` is how much there is to read, if that is known: for little there are few encoders.
    `encoding_steps` is how many steps load an encoder: each of them has `encoders` workers, and
    they share out what one step would get.

    Of the CPUs, encoders take half (on GPUs: one each), parsers a quarter (on GPUs: half), and the
    stateless tasks run in what is left. On few CPUs the shares are fractions. Parsing is short
    beside encoding, so encoders compute with all CPUs: up to four have a thread each, since one
    thread does more with a small model's matrices than two do half each.
    """
    resources = config.resources
    cpus = max(1.0, size.cpus)
    on_gpu = resources.encoder_gpus > 0
    if on_gpu and size.gpus < resources.encoder_gpus:
        raise ConfigError(
            f"resources.encoder_gpus is {resources.encoder_gpus:g}, but the cluster has "
            f"{size.gpus:g} GPUs"
        )
    if on_gpu:
        places = max(1, int(size.gpus / resources.encoder_gpus))
        encoders = resources.encoders or max(1, places // encoding_steps)
        encoder_cpus = resources.encoder_cpus or min(1.0, cpus / 4 / encoders / encoding_steps)
        parse_share = 0.5
    else:
        encoders = resources.encoders or max(1, int(min(cpus, max(4, cpus // 4))))
        encoder_cpus = resources.encoder_cpus or cpus / 2 / encoders / encoding_steps
        parse_share = 0.25
    encoder_cpus = encoder_cpus if encoder_cpus < 1 else math.floor(encoder_cpus)
    threads = max(1, int(cpus / encoders))
    if files_bytes is not None and resources.encoders is None:
        few = min(encoders, max(1, math.ceil(files_bytes / BYTES_OF_AN_ENCODER)))
        # No more than four: a node of the cluster may not have more.
        threads = max(threads, min(4, threads * encoders // few))
        encoders = few
    parse_cpus = min(resources.parse_cpus, cpus * parse_share)
    parsers = max(1, int(cpus * parse_share / parse_cpus))
    room = cpus - parsers * parse_cpus - 2 * min(1.0, cpus / 8)
    if encoders * encoding_steps * encoder_cpus > room + 1e-9:
        raise _no_room("resources.encoders x resources.encoder_cpus", encoders * encoding_steps,
                       encoder_cpus, cpus, room)  # fmt: skip
    return Plan(
        parsers=parsers,
        parse_cpus=parse_cpus,
        encoders=encoders,
        encoder_cpus=encoder_cpus,
        encoder_gpus=_gpus_each(config, size, encoders * encoding_steps) if on_gpu else 0.0,
        encoder_threads=threads,
        task_cpus=min(1.0, cpus / 8),
        engine_cpus=_engine_cpus(config, size, cpus, room),
    )


def _engine_cpus(config: Config, size: Size, cpus: float, room: float) -> float:
    """CPUs that Ray counts for a worker of a language model.

    As many as were asked for; of the one that is the default, less where the cluster is so small
    that nothing would be left to write prompts with.
    """
    llm = config.llm
    if config.writes is None:
        return llm.engine_cpus
    if llm.engines * llm.engine_gpus > size.gpus:
        raise ConfigError(
            f"llm.engines x llm.engine_gpus is {llm.engines * llm.engine_gpus:g}, but the cluster "
            f"has {size.gpus:g} GPUs"
        )
    if llm.engine_cpus > 1 and llm.engines * llm.engine_cpus > room:
        raise _no_room("llm.engines x llm.engine_cpus", llm.engines, llm.engine_cpus, cpus, room)
    return min(llm.engine_cpus, room / llm.engines)


def _no_room(names: str, workers: int, each: float, cpus: float, room: float) -> ConfigError:
    """What is read would wait for workers that wait for it, for ever."""
    return ConfigError(
        f"{names} is {workers * each:g}, but of the {cpus:g} CPUs of the cluster they can have "
        f"{room:g}: the others read what these work on"
    )


def _gpus_each(config: Config, size: Size, workers: int) -> float:
    """GPUs of each worker that encodes: several share one where there are not enough."""
    each = min(config.resources.encoder_gpus, size.gpus / workers)
    return each if each < 1 else math.floor(each)


@contextlib.contextmanager
def session(config: Config) -> Iterator[Size]:
    """A cluster to run Ray Data on, joined or started (see `joined`)."""
    import ray.data  # not loaded by the query service, which joins a cluster too

    with joined(config):
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.target_max_block_size = BLOCK_BYTES
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        resources = ray.cluster_resources()
        try:
            yield Size(resources.get("CPU", 1.0), resources.get("GPU", 0.0))
        except BaseException as error:
            # The workers of a plan that ended early live, and have their CPUs, as long as anything
            # refers to them, which the error's frames and Ray's own cycles do: the next plan would
            # wait for them for ever.
            traceback.clear_frames(error.__traceback__)
            gc.collect()
            raise


@contextlib.contextmanager
def joined(config: Config, cpus: int | None = None) -> Iterator[None]:
    """Joins the cluster (or starts one on this machine) and leaves it as it was found.

    `cpus` is how many CPUs one that is started counts; without it, those of the machine.
    Ray prints its notices to standard output, which is for results: here they go to the error's.
    """
    if ray.is_initialized():
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        _connect(config.resources.address, cpus)
        try:
            yield
        finally:
            ray.shutdown()


def _connect(address: str | None, cpus: int | None) -> None:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # errors are told by `explained`
    _check_answers(address or os.environ.get("RAY_ADDRESS"))
    # Without an address Ray would join whatever cluster runs on this machine.
    named = address or os.environ.get("RAY_ADDRESS") or "local"
    try:
        with _quiet_core():
            own = {"num_cpus": cpus, "include_dashboard": False} if named == "local" else {}
            ray.init(address=named, logging_level=logging.ERROR, log_to_driver=False, **own)
    except Exception as error:  # noqa: BLE001 - what Ray raises where a node does not start is that
        what = "start Ray on this machine" if named == "local" else f"reach the cluster at {named}"
        raise ServiceError(f"cannot {what}: {error}") from None


def _check_answers(address: str | None) -> None:
    """Ray itself would try for minutes to reach an address where nothing answers."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise ServiceError(
            f"no Ray cluster answers at {address} ({error}): start it, or correct "
            "resources.address or RAY_ADDRESS"
        ) from None


@contextlib.contextmanager
def _quiet_core() -> Iterator[None]:
    """Without Ray's C++ core telling standard error which log level it was given."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Maps what Ray raises to this project's errors, with the worker's own message."""
    try:
        yield
    except (ray.exceptions.RayError, OSError) as error:
        _without_frames(error)  # whoever keeps the error that is raised keeps this one
        own = own_error(str(error))
        if own is not None and not isinstance(own, IngestError):
            raise own from None
        reason = str(own) if own is not None else last_line(str(error))
        if getattr(error, "errno", None) == errno.ENOSPC or DISK_FULL in str(error):
            reason = f"the disk is full ({reason}): free space or choose another folder"
        raise IngestError(
            f"{reason.rstrip('.')}. What was published of {path} before is as it was; the same "
            "command goes on from what was finished"
        ) from None


def _without_frames(error: BaseException) -> None:
    """Takes the frames from an error and those behind it: they hold the plan that failed."""
    chain: list[BaseException | None] = [error]
    while chain:
        if (one := chain.pop()) is not None:
            one.__traceback__ = None
            chain += [one.__cause__, one.__context__]


def own_error(text: str) -> RagClusterError | None:
    """The error of this project that a worker raised: it arrives as text, inside a traceback."""
    found = re.findall(
        r"^rag_cluster\.errors\.(\w+): (.+(?:\n(?!\n).+)*)", _plain(text), re.MULTILINE
    )
    if not found:
        return None
    name, message = found[-1]
    kind = getattr(errors, name)
    if kind is errors.MissingExtraError:
        return errors.ModelError(message)
    error: RagClusterError = kind(message)
    return error


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def last_line(text: str) -> str:
    """The line that says what happened: of a worker's traceback the last one with an exception."""
    lines = [line.strip() for line in _plain(text).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    raised = [line for line in raised if not line.startswith("ray.exceptions")] or raised
    return (raised or lines or ["no message"])[-1]
