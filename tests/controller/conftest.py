"""Fixtures for tests of configuration and credentials."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the clusters and proxies that are configured on this machine."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def tokens_seen() -> list[str]:
    """Return the list to which `server` adds the Authorization header of each request."""
    return []


@pytest.fixture
async def server(tokens_seen: list[str]) -> AsyncIterator[str]:
    """Yield the URL of a server that answers 401 unless the token is `good` or `newer`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "")
        tokens_seen.append(token)
        if token in {"Bearer good", "Bearer newer"}:
            return web.json_response({})
        body = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "no"}
        return web.json_response(body, status=401)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as running:
        yield f"http://127.0.0.1:{running.port}"
