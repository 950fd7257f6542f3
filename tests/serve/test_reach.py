"""A service without keys answers the machine that it runs on alone, wherever it listens."""

import asyncio

import httpx2 as httpx
import pytest
from api_service import running

SEARCH = {"query": "rotor"}


def post(app, address):
    """The reply of an app that was reached at an address of its machine."""

    async def call():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{address}") as client:
            return await client.post("/v1/rerank", json={"query": "a", "documents": ["a"]})

    return asyncio.run(call())


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "[::1]"])
def test_from_this_machine_it_is_reached(service, address):
    assert post(service.app, address).status_code == 200


@pytest.mark.parametrize("address", ["192.0.2.7", "10.0.0.1", "[2001:db8::1]"])
def test_from_another_machine_it_is_not(service, address):
    reply = post(service.app, address)
    assert reply.status_code == 403
    assert reply.json()["error"]["code"] == "no_keys"
    assert "service.allow_anonymous" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""]
)
def test_under_the_name_of_another_site_it_is_not(service, host):
    """As a browser asks for a page whose name leads here (DNS rebinding)."""
    reply = httpx.get(f"{service.url}/v1/collection", headers={"Host": host})
    assert reply.status_code == 403
    for name in ("localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]:8000"):
        found = httpx.get(f"{service.url}/v1/collection", headers={"Host": name})
        assert found.status_code == 200, name


def test_unless_that_is_what_is_wanted(tenants):
    settings = ("service.allow_anonymous=true", "service.host=0.0.0.0")
    with running(tenants, *settings) as found:
        assert post(found.app, "192.0.2.7").status_code == 200
        assert httpx.post(f"{found.url}/v1/search", json=SEARCH).status_code == 200


def test_with_keys_the_key_decides(keyed):
    assert post(keyed.app, "192.0.2.7").status_code == 401
