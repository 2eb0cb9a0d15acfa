"""A webhook server for tests: answers as it is told and keeps what it was asked."""

import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from aiohttp import web

from envtest.certs import Authority

PATCH = [{"op": "replace", "path": "/spec/count", "value": 33}]
ANSWERS: dict[str, dict[str, Any]] = {
    "allow": {"allowed": True},
    "deny": {"allowed": False, "status": {"message": "cidr cannot be shrunk"}},
    "deny-code": {
        "allowed": False,
        "status": {"message": "pool has allocations", "reason": "Conflict", "code": 409},
    },
    "warn": {"allowed": True, "warnings": ["pool is nearly full"]},
    "mutate": {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(PATCH).encode()).decode(),
    },
}


class Hook:
    """What the webhook says next, and what it was asked since it was last read."""

    def __init__(self) -> None:
        self.answer = "allow"
        self.reviews: list[dict[str, Any]] = []
        self.url = ""
        self.ca_bundle = ""

    def asked(self) -> list[dict[str, Any]]:
        """Return the reviews since the last time."""
        found, self.reviews = self.reviews, []
        return found

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        content_type = request.headers["Content-Type"].partition(";")[0]
        asked = {"path": request.path_qs, "contentType": content_type, "review": review}
        self.reviews.append(asked)
        if self.answer == "error":
            return web.Response(status=500)
        if self.answer == "garbage":
            return web.json_response({"what": "is this"})
        if self.answer == "slow":
            await anyio.sleep_forever()
        response = {"uid": review["request"]["uid"], **ANSWERS[self.answer]}
        return web.json_response({**review, "request": None, "response": response})


@asynccontextmanager
async def hook_server() -> AsyncIterator[Hook]:
    """Run a webhook server with a certificate of its own."""
    hook, authority = Hook(), Authority.create()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        pair = authority.server("127.0.0.1").write(Path(folder), "hook")
        context.load_cert_chain(*pair)
    app = web.Application()
    app.router.add_post("/hook", hook.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        hook.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        hook.ca_bundle = base64.b64encode(authority.pair.certificate).decode()
        yield hook
    finally:
        await runner.cleanup()
