"""A webhook that delays deletions, so that a finalizer is added during a deletion.

kube-apiserver reads an object, decides by its finalizers whether to remove it, calls the webhooks,
and then removes it. A finalizer that a client adds meanwhile is removed with the object. Without
webhooks that window lasts milliseconds; a webhook can make it as long as a test needs.
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
    """The webhook that holds deletions until `release`. Create it by `slow_deletions`.

    Attributes:
        started: set once the API server has read an object to delete, and calls the webhook.
        in_force: set once the API server calls the webhook at all.
    """

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.in_force = anyio.Event()
        self._released = anyio.Event()

    def release(self) -> None:
        """Allow all deletions that wait, and later ones at once."""
        self._released.set()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Allow a deletion after `release`, a dry run at once."""
        review: dict[str, Any] = json.loads(await request.content.read())
        self.in_force.set()
        if not review["request"].get("dryRun"):
            self.started.set()
            await self._released.wait()
        response = {"uid": review["request"]["uid"], "allowed": True}
        type_meta = {name: review[name] for name in ("apiVersion", "kind")}
        return web.json_response(type_meta | {"response": response})


@asynccontextmanager
async def slow_deletions(plane: Plane, plural: str, tried: str) -> AsyncIterator[SlowDeletions]:
    """Hold the deletions of one of our kinds until `release` or the end of the context.

    It skips the test on the embedded server, which reads and removes an object in one step.

    Args:
        plane: the API server.
        plural: the kind.
        tried: the path of an object of that kind, for dry runs.
    """
    if plane.kind == "embedded":
        pytest.skip("the embedded server decides on a deletion and removes the object in one step")
    slow, authority = SlowDeletions(), Authority.create()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory(prefix="slow-") as folder:
        context.load_cert_chain(*authority.sign_server(HOST).write(Path(folder), "hook"))
    runner = web.ServerRunner(web.Server(slow.answer, access_log=None))
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0, ssl_context=context).start()
        url = f"https://{HOST}:{runner.addresses[0][1]}/"
        async with connect_admin(plane) as http:
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
        slow.release()
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


@asynccontextmanager
async def connect_admin(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """Yield an administrator's HTTP client, which deletes objects without a precondition."""
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
