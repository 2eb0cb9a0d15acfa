"""Embedded servers as tests start and restart them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from envtest import serve
from envtest.certs import create_client_tls


@asynccontextmanager
async def start_server(data: Path | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Start a server; yield its administrator's client."""
    async with serve(data=data) as server:
        trust = create_client_tls(server.authority.pair.certificate, None)
        token = {"Authorization": f"Bearer {server.get_or_create_token('admin')}"}
        async with httpx.AsyncClient(
            base_url=server.url, verify=trust, headers=token, timeout=30
        ) as http:
            yield http
