"""Admission exchanges as a real API server had them with a webhook, had again with this one."""

import copy
import json
from typing import Any

import pytest

from tests.envtest.admission.conftest import RECORDED
from tests.envtest.admission.exchange import UNREACHABLE, Stage
from tests.envtest.admission.hooks import allow, deny, make_patch_reply

# What the hook of the recording said, by the names that the recording has for it.
REPLIES: dict[str, dict[str, Any]] = {
    "allow": allow(),
    "deny": deny(message="cidr cannot be shrunk"),
    "deny-code": deny(message="pool has allocations", reason="Conflict", code=409),
    "warn": allow(warnings=["pool is nearly full"]),
    "mutate": make_patch_reply({"op": "replace", "path": "/spec/count", "value": 33}),
    "error": {"status": 500},
    "garbage": {"text": '{"what": "is this"}', "type": "application/json"},
    "slow": {"hang": True},
}


def build_recorded_configuration(step: str) -> dict[str, Any]:
    """Return the configuration that was in force at a step."""
    body = copy.deepcopy(RECORDED["webhook"])
    webhook = body["webhooks"][0]
    url = UNREACHABLE if step.startswith("hook-down") else "${hook}"
    webhook["clientConfig"] = {"url": f"{url}/hook", "caBundle": "<ca>"}
    if step.endswith("-ignore"):
        webhook["failurePolicy"] = "Ignore"
    if step in {"status-matched", "status-denied"}:
        webhook["rules"][0]["resources"] = ["widgets/status"]
    if step == "mutated":
        body["kind"] = "MutatingWebhookConfiguration"
    body["apiVersion"] = "admissionregistration.k8s.io/v1"
    return dict(body)


@pytest.mark.slow
async def test_webhooks_are_called_and_enforced_as_by_the_real_server(
    stage: Stage,
) -> None:
    wrong: dict[str, Any] = {}
    in_force: dict[str, Any] = {}
    for step in RECORDED["steps"]:
        if in_force != (expected := build_recorded_configuration(step["id"])):
            await stage.configure(expected)
            in_force = expected
        got = await stage.exchange(step["request"], {"/hook": REPLIES[step["hookAnswers"]]})
        if got != {"reviews": step["reviews"], "response": step["response"]}:
            wrong[step["id"]] = (got, step["reviews"], step["response"])

    assert not wrong, json.dumps(wrong, indent=1)
