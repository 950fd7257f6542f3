"""The HTTP API: `create_app` makes it over a backend."""

from serve.api.app import create_app

__all__ = ["create_app"]
