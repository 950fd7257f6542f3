"""Where a collection lies: a folder on disk, or a prefix in an object store.

A local place is a plain `pathlib.Path`. A remote one is a `UPath` (universal_pathlib), which has
the same methods; both are annotated as `Path`, and `is_local()` tells them apart.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from rag_cluster.errors import CollectionError, MissingExtraError

# The packages behind the protocols of fsspec that have an extra.
_EXTRAS = {"s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3"), "gs": ("gcsfs", "gcs"),
           "gcs": ("gcsfs", "gcs")}  # fmt: skip
_REFUSALS = {
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "gcsfs.retry": ("HttpError",),
    "google.auth.exceptions": ("GoogleAuthError",),
    "aiohttp": ("ClientError",),
}


def is_remote_url(path: str | Path) -> bool:
    """Whether this is the url of an object store, such as s3://bucket/prefix."""
    return isinstance(path, str) and "://" in path and not path.startswith("file://")


def is_local(path: Path) -> bool:
    """Whether the path is on this machine's file system (a UPath of a store is no `Path`)."""
    return isinstance(path, Path)


def place(path: str | Path) -> Path:
    """The path of a collection: `pathlib.Path` on disk, `UPath` for a url such as s3://...

    Raises MissingExtraError where the package for the protocol is absent, CollectionError where
    nothing knows the protocol or the url names no bucket.
    """
    if not is_remote_url(path):
        local = path.removeprefix("file://") if isinstance(path, str) else path
        return local if not isinstance(local, str) else Path(local)
    file_system(str(path))
    from upath import UPath

    # Another process may have written since, so listings are not kept.
    return cast("Path", UPath(str(path).rstrip("/"), use_listings_cache=False))


def file_system(url: str) -> Any:
    """The fsspec file system of a url. Raises MissingExtraError or CollectionError."""
    protocol, _, rest = url.partition("://")
    if not rest.strip("/"):
        raise CollectionError(f"{url} names no bucket: write {protocol}://BUCKET/PREFIX")
    import fsspec

    try:
        return fsspec.filesystem(protocol, use_listings_cache=False)
    except ImportError:
        package, extra = _EXTRAS.get(protocol, (f"the one of fsspec for {protocol}", "s3"))
        raise MissingExtraError(package, extra, f"reading {protocol}:// places") from None
    except ValueError:
        raise CollectionError(
            f"{url}: no file system has the protocol {protocol}://; there are s3:// and gs://, and "
            "those of the installed packages for fsspec"
        ) from None


def check_place(path: str | Path) -> Path:
    """The place of a collection that is to be written, looked at before any work.

    Raises CollectionError where a file lies there, or where it cannot be looked at.
    """
    found = place(path)
    try:
        if is_local(found):
            blocked = next((p for p in (found, *found.absolute().parents) if p.is_file()), None)
        else:
            blocked = found if remote(found).isfile(key(found)) else None
    except refusals() as error:
        raise CollectionError(f"cannot look at {path}: {reason(error)}") from None
    if blocked is not None:
        raise CollectionError(
            f"{blocked} is a file, and a collection is a folder: give --collection another path"
        )
    return found


def remote(path: Path) -> Any:
    """The fsspec file system of a remote path."""
    return path.fs  # type: ignore[attr-defined]


def key(path: Path) -> str:
    """What a remote path is called on its file system: bucket/prefix/name."""
    return str(path.path)  # type: ignore[attr-defined]


def refusals(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """What reading and writing raises: OSError, the own errors of the stores' clients, and `more`.

    For `except refusals():`, which is evaluated only when something was raised.
    """
    found: list[type[Exception]] = [OSError, *more]
    for module, names in _REFUSALS.items():
        if module in sys.modules:
            found += [getattr(sys.modules[module], name) for name in names]
    return tuple(found)


def reason(error: Exception) -> str:
    """What went wrong, in the client's words and in one line."""
    text = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        return f"{text}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    return str(text)
