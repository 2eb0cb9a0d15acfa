"""A webhook server for tests: gives the answers that a test set, and keeps the requests."""

import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from aiohttp import web

from envtest.certs import Authority

Reply = dict[str, Any]


def allow(**members: Any) -> Reply:
    """Return a reply that lets a write pass."""
    return {"response": {"allowed": True, **members}}


def deny(**status: Any) -> Reply:
    """Return a reply that refuses a write."""
    return {"response": {"allowed": False, **({"status": status} if status else {})}}


def make_patch_reply(*operations: dict[str, Any]) -> Reply:
    """Return a reply that changes what is written."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return allow(patchType="JSONPatch", patch=patch)


class Hook:
    """What the webhook says at each path, and what it was asked since it was last read.

    A reply has a `response` for an AdmissionReview, or `status`, `text` and `type` of any other
    answer; `hang` never answers, `drop` cuts the connection.
    """

    def __init__(self, authority: Authority) -> None:
        self.replies: dict[str, Reply] = {}
        self.asked: list[dict[str, Any]] = []
        # What happens while a review is being answered.
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        # What canaries said: configurations that are in force.
        self.in_force: set[str] = set()
        self.url = ""
        self.ca_bundle = base64.b64encode(authority.pair.certificate).decode()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        review = await request.json()
        if request.path.startswith("/canary/"):
            self.in_force.add(request.path)
            return _answer_review(review, allow()["response"])
        content_type = request.headers["Content-Type"].partition(";")[0]
        self.asked.append({"path": request.path_qs, "contentType": content_type, "review": review})
        if self.meanwhile is not None:
            await self.meanwhile()
        reply = self.replies.get(request.path) or allow()
        if reply.get("hang"):
            await anyio.sleep_forever()
        if reply.get("drop"):
            assert request.transport is not None
            request.transport.abort()
        if "response" in reply:
            return _answer_review(review, reply["response"])
        return web.Response(
            status=reply.get("status", 200),
            text=reply.get("text", ""),
            content_type=reply.get("type"),
        )


def _answer_review(review: dict[str, Any], response: dict[str, Any]) -> web.Response:
    body = {name: review[name] for name in ("kind", "apiVersion")}
    answer = {"uid": review["request"]["uid"], **response}
    return web.json_response({**body, "response": answer})


@asynccontextmanager
async def serve_hook(*hosts: str) -> AsyncIterator[Hook]:
    """Run a webhook server with its own certificate, for `hosts`, by default for 127.0.0.1."""
    authority = Authority.create()
    hook = Hook(authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        pair = authority.issue_server_certificate(*(hosts or ("127.0.0.1",))).write(
            Path(folder), "hook"
        )
        context.load_cert_chain(*pair)
    app = web.Application()
    app.router.add_post("/{path:.*}", hook.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        hook.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield hook
    finally:
        await runner.cleanup()
