"""Reads of a revision that is still to come wait for it, and say so if it never came."""

import json
from collections.abc import AsyncIterator

import anyio
import httpx
import pytest

from envtest import EmbeddedServer, serve

MAPS = "/api/v1/namespaces/default/configmaps"
WHOLE = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
WATCH = {"watch": "true", "timeoutSeconds": "1"}
READS = [
    (f"{MAPS}/a", {}),
    (MAPS, {}),
    (MAPS, {"limit": "1"}),
    (MAPS, {"resourceVersionMatch": "Exact"}),
]


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    """Yield a running embedded server."""
    async with serve() as started:
        yield started


@pytest.fixture
async def http(server: EmbeddedServer) -> AsyncIterator[httpx.AsyncClient]:
    """Yield the administrator's client, after the creation of the ConfigMap `a`."""
    token = {"Authorization": f"Bearer {server.get_or_create_token('admin')}"}
    async with httpx.AsyncClient(base_url=server.url, verify=False, headers=token) as client:
        await client.post(MAPS, json={"metadata": {"name": "a"}})
        yield client


@pytest.mark.parametrize(("path", "query"), READS)
async def test_a_revision_that_comes_in_time_is_read(
    server: EmbeddedServer, http: httpx.AsyncClient, path: str, query: dict[str, str]
) -> None:
    server.api.revision_timeout = 60
    version = str(server.api.store.revision + 2)
    codes: list[int] = []

    async def read() -> None:
        answer = await http.get(path, params={**query, "resourceVersion": version})
        codes.append(answer.status_code)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for name in ("b", "c"):
                await http.post(MAPS, json={"metadata": {"name": name}})

    assert codes == [200]


@pytest.mark.parametrize(("path", "query"), READS)
async def test_a_revision_that_does_not_come_is_too_large(
    server: EmbeddedServer, http: httpx.AsyncClient, path: str, query: dict[str, str]
) -> None:
    server.api.revision_timeout = 0.01
    answer = await http.get(path, params={**query, "resourceVersion": "99999999"})

    assert answer.status_code == 504
    assert answer.headers["Retry-After"] == "1"
    body = answer.json()
    assert body["message"].startswith("Timeout: Too large resource version: 99999999, current: ")
    assert body["reason"] == "Timeout"
    assert body["details"] == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }


async def test_a_watch_begins_after_a_revision_that_is_still_to_come(
    server: EmbeddedServer, http: httpx.AsyncClient
) -> None:
    version = str(server.api.store.revision + 1)

    async with http.stream(
        "GET", MAPS, params={"watch": "true", "timeoutSeconds": "30", "resourceVersion": version}
    ) as watch:
        for name in ("b", "c"):
            await http.post(MAPS, json={"metadata": {"name": name}})
        first = json.loads(await anext(watch.aiter_lines()))

    assert (watch.status_code, first["object"]["metadata"]["name"]) == (200, "c")


async def test_a_watch_that_is_to_show_a_future_that_does_not_come_ends_with_an_error(
    server: EmbeddedServer, http: httpx.AsyncClient
) -> None:
    server.api.revision_timeout = 0.01
    answer = await http.get(MAPS, params={**WATCH, **WHOLE, "resourceVersion": "99999999"})

    assert answer.status_code == 200
    event = answer.json()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 504)
    assert event["object"]["details"]["retryAfterSeconds"] == 1
