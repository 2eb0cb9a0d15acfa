"""A webhook that makes deletions slow, so that other writes overtake them.

kube-apiserver reads an object, decides from its finalizers how it is to go, asks the webhooks, and
only then removes it: a finalizer that was added in between goes with the object. Without webhooks
that takes milliseconds, with them as long as they like.
"""

import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx
import pytest
from aiohttp import web

from envtest.certs import Authority
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import names
from tests.polling import until

HOST = "127.0.0.1"
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class SlowDeletions:
    """Deletions that are held until they are let go. Made by `slow_deletions`.

    Attributes:
        begun: set when the API server has read an object and asks.
        in_force: set when the API server asks at all.
    """

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.in_force = anyio.Event()
        self._go = anyio.Event()

    def go(self) -> None:
        """Let them all take place."""
        self._go.set()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Allow a deletion in the end; one that is tried out at once."""
        review: dict[str, Any] = json.loads(await request.content.read())
        self.in_force.set()
        if not review["request"].get("dryRun"):
            self.begun.set()
            await self._go.wait()
        response = {"uid": review["request"]["uid"], "allowed": True}
        kept = {name: review[name] for name in ("apiVersion", "kind")}
        return web.json_response(kept | {"response": response})


@asynccontextmanager
async def slow_deletions(plane: Plane, plural: str, tried: str) -> AsyncIterator[SlowDeletions]:
    """Hold the deletions of one of our kinds while the context lasts; skips the embedded server.

    Args:
        plane: the API server.
        plural: the kind.
        tried: the path of any object of that kind.
    """
    if plane.kind == "embedded":
        pytest.skip("the embedded server decides how an object goes in the moment it goes")
    slow, authority = SlowDeletions(), Authority.create()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory(prefix="slow-") as folder:
        context.load_cert_chain(*authority.sign_server(HOST).write(Path(folder), "hook"))
    runner = web.ServerRunner(web.Server(slow.answer, access_log=None))
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0, ssl_context=context).start()
        url = f"https://{HOST}:{runner.addresses[0][1]}/"
        async with people(plane) as http:
            configuration = await http.post(
                _CONFIGURATIONS, json=_configuration(url, authority, plural)
            )
            assert configuration.status_code == 201, configuration.text

            async def is_asked() -> bool:
                await http.delete(tried, params={"dryRun": "All"})
                return slow.in_force.is_set()

            await until(is_asked, bool)
        yield slow
    finally:
        slow.go()
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


@asynccontextmanager
async def people(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """Connect as those who delete without asking for a version: an administrator."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=plane.url,
        verify=plane.tls(),
        headers=plane.admin_headers(),
        timeout=60,
        limits=limits,
    ) as http:
        yield http


def _configuration(url: str, authority: Authority, plural: str) -> dict[str, Any]:
    bundle = base64.b64encode(authority.pair.certificate).decode()
    rule = {
        "apiGroups": [names.GROUP],
        "apiVersions": ["*"],
        "operations": ["DELETE"],
        "resources": [plural],
    }
    hook = {
        "name": "slow.example.com",
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 30,
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"},
        "webhooks": [hook],
    }
