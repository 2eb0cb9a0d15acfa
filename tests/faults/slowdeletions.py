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


class DeletionDelay:
    """A webhook that does not answer deletions until `allow_deletions`.

    `delay_deletions` creates it.

    Attributes:
        started: set once the API server has read an object to delete, and calls the webhook.
        is_configured: set once the API server calls the webhook at all.
    """

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.is_configured = anyio.Event()
        self._is_allowed = anyio.Event()

    def allow_deletions(self) -> None:
        """Allow the deletions that wait, and all later ones at once."""
        self._is_allowed.set()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Allow a deletion once `allow_deletions` was called, and a dry run at once."""
        review: dict[str, Any] = json.loads(await request.content.read())
        self.is_configured.set()
        if not review["request"].get("dryRun"):
            self.started.set()
            await self._is_allowed.wait()
        response = {"uid": review["request"]["uid"], "allowed": True}
        type_meta = {name: review[name] for name in ("apiVersion", "kind")}
        return web.json_response(type_meta | {"response": response})


@asynccontextmanager
async def delay_deletions(
    plane: Plane, plural: str, dry_run_path: str
) -> AsyncIterator[DeletionDelay]:
    """Delay the deletions of one of our kinds until `allow_deletions` or the end of the context.

    It skips the test on the embedded server, which reads and removes an object in one step.

    Args:
        plane: the API server.
        plural: the plural name of the kind.
        dry_run_path: the path of an object of that kind; dry runs of its deletion show whether the
            API server already calls the webhook.
    """
    if plane.kind == "embedded":
        pytest.skip("the embedded server decides on a deletion and removes the object in one step")
    deletion_delay, authority = DeletionDelay(), Authority.create()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory(prefix="slow-") as folder:
        context.load_cert_chain(
            *authority.issue_server_certificate(HOST).write(Path(folder), "hook")
        )
    runner = web.ServerRunner(web.Server(deletion_delay.answer, access_log=None))
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0, ssl_context=context).start()
        url = f"https://{HOST}:{runner.addresses[0][1]}/"
        async with connect_admin(plane) as http:
            configuration = await http.post(
                _CONFIGURATIONS, json=_make_configuration(url, authority, plural)
            )
            assert configuration.status_code == 201, configuration.text

            async def is_webhook_called() -> bool:
                await http.delete(dry_run_path, params={"dryRun": "All"})
                return deletion_delay.is_configured.is_set()

            await until(is_webhook_called, bool)
        yield deletion_delay
    finally:
        deletion_delay.allow_deletions()
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


@asynccontextmanager
async def connect_admin(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """Yield an administrator's HTTP client, which deletes objects without a precondition."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=plane.url,
        verify=plane.create_admin_tls(),
        headers=plane.build_admin_headers(),
        timeout=60,
        limits=limits,
    ) as http:
        yield http


def _make_configuration(url: str, authority: Authority, plural: str) -> dict[str, Any]:
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
