"""Reaching Elasticsearch or OpenSearch: the server's address, credentials, and errors in words.

Credentials come from the environment and stay there: ELASTICSEARCH_API_KEY, or ELASTICSEARCH_USER
with ELASTICSEARCH_PASSWORD; ELASTICSEARCH_CA_FILE names the certificate authority of the server.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from rag_cluster.config import Elastic
from rag_cluster.errors import (
    ConfigError,
    MissingExtraError,
    RagClusterError,
    ServiceError,
    UsageError,
)

try:
    import elastic_transport
    import elasticsearch
except ImportError:
    raise MissingExtraError(
        "elasticsearch", "elastic", "index.lexical.kind: elasticsearch"
    ) from None

URL = "ELASTICSEARCH_URL"
API_KEY = "ELASTICSEARCH_API_KEY"
USER = "ELASTICSEARCH_USER"
PASSWORD = "ELASTICSEARCH_PASSWORD"  # noqa: S105 - the variable's name
CA_FILE = "ELASTICSEARCH_CA_FILE"

# What a busy or restarting server or its proxy answers; the same request may succeed later.
BUSY = (502, 503, 504)
PRODUCT = "x-elastic-product"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a version's index is: server, index and alias. Holds no secret; goes to the manifest.

    `collection` names the collection that the index belongs to.
    """

    url: str
    api: str
    index: str
    alias: str
    collection: str

    def to_manifest(self) -> dict[str, str]:
        """A JSON object, read back by `of_manifest`."""
        return asdict(self)

    @classmethod
    def of_manifest(cls, lexical: Mapping[str, Any]) -> Self:
        """The target that the manifest's section `lexical` holds among other keys."""
        return cls(**{name: lexical[name] for name in cls.__slots__})


class PlainJsonNode(elastic_transport.Urllib3HttpNode):  # type: ignore[misc]
    """Speaks to servers that know neither Elasticsearch's media type nor its product header."""

    def perform_request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Any = None,
        request_timeout: Any = elastic_transport.client_utils.DEFAULT,
    ) -> Any:
        """The request with plain JSON types; its answer as the client wants to see it."""
        plain = {
            name: re.sub(r"/vnd\.elasticsearch\+([\w-]+); *compatible-with=\d+", r"/\1", value)
            for name, value in (headers or {}).items()
        }
        answer = super().perform_request(
            method, target, body, elastic_transport.HttpHeaders(plain), request_timeout
        )
        answer.meta.headers[PRODUCT] = "Elasticsearch"
        return answer


def connect(url: str, config: Elastic) -> Any:
    """A client of the server; close it. Raises ConfigError where the environment is no use.

    A lost connection, a timeout and a busy server are tried again `config.retries` times, with
    growing pauses.
    """
    options: dict[str, Any] = _credentials(os.environ)
    if config.api == "opensearch":
        options["node_class"] = PlainJsonNode
    ca_file = os.environ.get(CA_FILE)
    if ca_file and url.startswith("https:"):
        if not Path(ca_file).is_file():
            raise ConfigError(f"{CA_FILE} names {ca_file}, which is not a file")
        options["ca_certs"] = ca_file
    return elasticsearch.Elasticsearch(
        url,
        request_timeout=config.timeout_s,
        max_retries=config.retries,
        retry_on_status=(429, *BUSY),
        retry_on_timeout=True,
        retry_backoff_base=config.backoff_s,
        retry_backoff_cap=config.max_backoff_s,
        **options,
    )


def _credentials(environment: Mapping[str, str]) -> dict[str, Any]:
    if key := environment.get(API_KEY):
        return {"api_key": key}
    user, password = environment.get(USER), environment.get(PASSWORD)
    if bool(user) != bool(password):
        missing = PASSWORD if user else USER
        raise ConfigError(f"{missing} is not set: {USER} and {PASSWORD} go together")
    return {"basic_auth": (user, password)} if user else {}


def server_url(configured: str | None, recorded: str | None = None) -> str:
    """The server's address with its port: configured, else of the environment, else `recorded`.

    Raises ConfigError where there is none, or where it is no address or holds a password.
    """
    url = configured or os.environ.get(URL) or recorded
    if not url:
        raise ConfigError(
            "index.lexical.kind is elasticsearch, but no server is named: set "
            f"index.lexical.elastic.url or {URL}, such as http://localhost:9200"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or {"https": 443}.get(parts.scheme, 9200)
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ConfigError(
            f"index.lexical.elastic.url (or {URL}) must be an address such as https://host:9200"
        )
    if "@" in parts.netloc:  # the address itself is not shown: it may hold a password
        raise ConfigError(
            f"index.lexical.elastic.url (or {URL}) holds credentials: they would end up in "
            f"manifests and logs. Set {API_KEY}, or {USER} and {PASSWORD}, instead"
        )
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}:{port}{parts.path.rstrip('/')}"


def located(manifest: Mapping[str, Any], config: Elastic) -> Target:
    """Where the index of a version is now, by its manifest and the configuration in use.

    A `url` that differs from the one in the manifest's configuration comes first, then
    ELASTICSEARCH_URL, then the address that the version was loaded at. Raises ConfigError.
    """
    target = Target.of_manifest(manifest["lexical"])
    made = manifest["config"]["index"]["lexical"]["elastic"]["url"]
    changed = config.url if config.url != made else None
    return replace(target, url=server_url(changed, target.url), api=config.api)


@contextmanager
def explained(url: str, doing: str) -> Iterator[None]:
    """Maps the client's errors to this project's, with the address and what to do."""
    try:
        yield
    except (elasticsearch.ApiError, elastic_transport.TransportError) as error:
        raise _own_error(error, f"{doing} at {url}") from None


def _own_error(error: Any, doing: str) -> RagClusterError:
    match error:
        case elasticsearch.UnsupportedProductError():
            return _not_elasticsearch(doing)
        case elasticsearch.AuthenticationException():
            return ServiceError(
                f"{doing}: the server refused the credentials (401): set {API_KEY}, or {USER} and "
                f"{PASSWORD}, in the environment of this command and of every node of the cluster"
            )
        case elasticsearch.AuthorizationException():
            return ServiceError(
                f"{doing}: not allowed (403): {reason(error)}. Give the user rights"
            )
        case elasticsearch.ApiError(status_code=406 | 415):
            return _not_elasticsearch(doing)
        case elasticsearch.ApiError(status_code=429):
            return ServiceError(
                f"{doing}: the server is too busy (429) and stayed so: raise "
                "index.lexical.elastic.retries or max_backoff_s, or lower bulk_chunks"
            )
        case elasticsearch.ApiError() if "too_many" in reason(error):
            return UsageError(f"{doing}: shorten the query or the filter: {reason(error)}")
        case elasticsearch.ApiError():
            return ServiceError(
                f"{doing}: the server answered {error.status_code}: {reason(error)}"
            )
        case elastic_transport.TlsError():
            return ServiceError(
                f"{doing}: no secure connection: {error}. Set {CA_FILE} to the certificate "
                "authority of the server"
            )
        case elastic_transport.ConnectionTimeout():
            return ServiceError(
                f"{doing}: no answer in time: raise index.lexical.elastic.timeout_s, or see how "
                "the server is"
            )
        case _:
            return ServiceError(
                f"{doing}: cannot be reached: {error}. Start it, or correct "
                f"index.lexical.elastic.url or {URL}"
            )


def _not_elasticsearch(doing: str) -> ServiceError:
    return ServiceError(
        f"{doing}: the server is not Elasticsearch 9: for OpenSearch set "
        "index.lexical.elastic.api: opensearch"
    )


def reason(error: Any) -> str:
    """What the server gives as the reason: its type, and the innermost cause."""
    body = error.body.get("error") if isinstance(error.body, dict) else error.body
    return cause(body)[:500]


def cause(body: Any) -> str:
    """`type: reason` of an error object of the server, with what caused it."""
    if not isinstance(body, dict):
        return str(body)
    text = f"{body.get('type')}: {body.get('reason')}"
    inner = body.get("caused_by") or next(iter(body.get("root_cause") or ()), None)
    if not isinstance(inner, dict) or inner.get("reason") in (None, body.get("reason")):
        return text
    return f"{text} ({inner.get('reason')})"
