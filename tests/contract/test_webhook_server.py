"""Webhooks end to end: an API server calls them and trusts the manager's own certificate."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import msgspec

from controller import Manager, ManagerOptions, connect
from controller.errors import Cause
from controller.options import SelfSigned
from controller.webhooks import AdmissionRequest, Allowed, Answer, Denied, Patched, Webhook
from envtest.plane import RunningControlPlane as Plane
from tests.envtest.samples import GROUP, PATH, build_gauge, build_gauge_definition
from tests.polling import SECONDS

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SETTINGS = SelfSigned(
    namespace="default",
    service="hook",
    secret="hook-cert",
    validating=("rules",),
    mutating=("defaults",),
    names=("127.0.0.1",),
)
OPTIONS = ManagerOptions(webhook_bind="127.0.0.1:0", webhook_self_signed=SETTINGS)


class GaugeSpec(msgspec.Struct):
    count: int = 0
    set_place: str = ""


class Gauge(msgspec.Struct):
    spec: GaugeSpec = msgspec.field(default_factory=GaugeSpec)


async def validate_gauge(request: AdmissionRequest[Gauge]) -> Answer:
    """Reject an update that lowers the count; warn about a new gauge."""
    if request.object is None or request.oldObject is None:
        return Allowed(["this gauge is new"])
    if request.object.spec.count < request.oldObject.spec.count:
        cause = Cause("spec.count", "FieldValueInvalid", "must not fall")
        return Denied.invalid("a gauge does not count down", cause)
    return Allowed()


async def set_place(request: AdmissionRequest[Gauge]) -> Answer:
    """Set the default of the field `place`."""
    before = msgspec.json.decode(request.objectBytes)
    after = {**before, "spec": {"place": "hall", **before.get("spec", {})}}
    return Patched.from_change(before, after)


def build_configuration(kind: str, name: str, url: str, operations: list[str]) -> dict[str, Any]:
    rule = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["gauges"]}
    hook = {
        "name": f"{name}.{GROUP}",
        "clientConfig": {"url": url},
        "rules": [{**rule, "operations": operations}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [hook],
    }


@asynccontextmanager
async def run_webhook_manager(plane: Plane, tmp_path: Path) -> AsyncIterator[Manager]:
    """Run a manager with both webhooks."""
    transport = await connect(plane.write_kubeconfig(tmp_path / "kubeconfig"))
    manager = Manager(transport, options=OPTIONS)
    manager.add_webhook(Webhook("/judge", validate_gauge, Gauge))
    manager.add_webhook(Webhook("/place", set_place, Gauge, mutating=True))
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await manager.wait_serving()
            yield manager
            manager.stop()
    finally:
        await transport.aclose()


async def create_once_served(admin: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
    """Create `body` once the server knows its webhooks and whom to trust.

    Servers learn of configurations a moment after they were written.
    """
    with anyio.fail_after(SECONDS):
        while True:
            answer = await admin.post(PATH, params={"dryRun": "All"}, json=body)
            if answer.is_success and answer.json()["spec"].get("place") == "hall":
                return await admin.post(PATH, json=body)


async def test_an_api_server_trusts_our_webhooks_and_enforces_their_answers(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await plane.install_crds([build_gauge_definition()])
    async with run_webhook_manager(plane, tmp_path) as manager:
        url = f"https://127.0.0.1:{manager.webhook_port}"
        for kind, name, path, operations in (
            ("ValidatingWebhookConfiguration", "rules", "/judge", ["CREATE", "UPDATE"]),
            ("MutatingWebhookConfiguration", "defaults", "/place", ["CREATE"]),
        ):
            body = build_configuration(kind, name, url=url + path, operations=operations)
            created = await admin.post(f"{ADMISSION}/{kind.lower()}s", json=body)
            assert created.status_code == 201, created.text

        created = await create_once_served(admin, build_gauge("a"))
        assert (created.status_code, created.json()["spec"]["place"]) == (201, "hall")
        assert "this gauge is new" in created.headers["Warning"]

        merge = {"Content-Type": "application/merge-patch+json"}
        raised = await admin.patch(f"{PATH}/a", json={"spec": {"count": 5}}, headers=merge)
        lowered = await admin.patch(f"{PATH}/a", json={"spec": {"count": 2}}, headers=merge)
        assert (raised.status_code, lowered.status_code) == (200, 422)
        status = lowered.json()
        assert status["message"] == (
            f'admission webhook "rules.{GROUP}" denied the request: a gauge does not count down'
        )
        assert status["details"]["causes"] == [
            {"reason": "FieldValueInvalid", "message": "must not fall", "field": "spec.count"}
        ]
