"""Questions as an API server asks them, and what a test reads out of the answers."""

from typing import Any

import msgspec

from controller.clock import Clock
from controller.webhooks import AdmissionRequest, Allowed, Answer, Webhook
from tests.clock import VirtualClock
from tests.controller.widgets import Widget, build_widget, encode_widget

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def request(**changes: Any) -> dict[str, Any]:
    """Return the request of a create of widget `a`; a change to None leaves the field out."""
    fields: dict[str, Any] = {
        "uid": UID,
        "kind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "resource": {"group": "example.com", "version": "v1", "resource": "widgets"},
        "requestKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "requestResource": {"group": "example.com", "version": "v1", "resource": "widgets"},
        "name": "a",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": encode_widget(build_widget("a", 1)),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {**fields, **changes}


def build_review(version: str = "v1", **changes: Any) -> bytes:
    """Return an AdmissionReview as JSON; `changes` override fields of its request."""
    return msgspec.json.encode(
        {
            "kind": "AdmissionReview",
            "apiVersion": f"admission.k8s.io/{version}",
            "request": request(**changes),
        }
    )


async def allow(_: AdmissionRequest[Widget]) -> Answer:
    """Allow every request."""
    return Allowed()


async def ask(webhook: Webhook[Any], body: bytes, clock: Clock | None = None) -> dict[str, Any]:
    """Return the whole review that `webhook` answers with."""
    answer, _ = await webhook.answer(body, clock or VirtualClock(), 10)
    decoded: dict[str, Any] = msgspec.json.decode(answer)
    return decoded


async def read_response(webhook: Webhook[Any], body: bytes) -> dict[str, Any]:
    """Return the response in the answer of `webhook`."""
    answered: dict[str, Any] = (await ask(webhook, body))["response"]
    return answered
