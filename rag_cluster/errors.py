"""The exceptions of rag-cluster, drawn as a tree.

RagClusterError
├── UsageError              the request itself is wrong: the person asking can mend it (exit code 2)
│   ├── ConfigError         an unknown key, a wrong type, settings that exclude each other
│   ├── SourceError         nothing to read where a source was named, or no permission to read it
│   ├── CollectionError     no collection there, or one that this configuration cannot open
│   ├── FilterError         a metadata filter that is malformed or names an undeclared field
│   └── DatasetError        queries or qrels that cannot be read or match nothing
├── MissingExtraError       an optional package is absent (the message names the extra to install)
├── ModelError              a model cannot be loaded or gives what it should not
├── ServiceError            a remote server refused, timed out or answered nonsense
└── IngestError             the work began and failed; what was published before stays readable

Every message says what happened, where, and what to do. Errors of other libraries are mapped to
these once, where the library is called.
"""

from __future__ import annotations


class RagClusterError(Exception):
    """Base class. `exit_code` is what the command line returns for it."""

    exit_code = 1


class UsageError(RagClusterError):
    """The request is wrong; nothing was changed."""

    exit_code = 2


class ConfigError(UsageError):
    """The configuration is wrong."""


class SourceError(UsageError):
    """A source cannot be read or holds nothing."""


class CollectionError(UsageError):
    """A collection is absent, damaged or does not fit the configuration."""


class FilterError(UsageError):
    """A metadata filter is malformed or names a field that was not declared."""


class DatasetError(UsageError):
    """Queries or qrels cannot be read, or do not match the collection."""


class MissingExtraError(RagClusterError):
    """An optional package is not installed."""

    exit_code = 2

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed: "
            f"pip install 'rag-cluster[{extra}]'"
        )


class ModelError(RagClusterError):
    """A model cannot be loaded, or returned something unusable."""

    exit_code = 2


class ServiceError(RagClusterError):
    """A remote service failed after retries."""


class RefusedError(ServiceError):
    """A remote service refuses what it is asked: a wrong key, no such model. Not tried again."""


class IngestError(RagClusterError):
    """An ingest failed after it began; the collection's published version is untouched."""
