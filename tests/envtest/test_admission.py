"""Admission exchanges as a real API server had them with a webhook, had again with this one."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from envtest import ControlPlane, parse_token_file
from tests.envtest.hooks import Hook, hook_server
from tests.envtest.replay import mask

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "admission.json").read_text())
RECORDED_HOOK = "https://127.0.0.1:40893"
NOBODY = "https://127.0.0.1:1"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
TOKEN = 'admin-token,admin,1,"system:masters"\n'


def configuration(step: str, hook: Hook) -> tuple[str, dict[str, Any]]:
    """Return the configuration that was in force at a step, and where it is made."""
    body = json.loads(json.dumps(RECORDED["webhook"]))
    one = body["webhooks"][0]
    url = NOBODY if step.startswith("hook-down") else hook.url
    one["clientConfig"] = {"url": f"{url}/hook", "caBundle": hook.ca_bundle}
    if step.endswith("-ignore"):
        one["failurePolicy"] = "Ignore"
    if step in {"status-matched", "status-denied"}:
        one["rules"][0]["resources"] = ["widgets/status"]
    kind = "mutating" if step == "mutated" else "validating"
    body["kind"] = f"{kind.capitalize()}WebhookConfiguration"
    return f"{CONFIGURATIONS}/{kind}webhookconfigurations", body


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with (
        ControlPlane.start(tokens=parse_token_file(TOKEN), force_embedded=True) as plane,
        httpx.AsyncClient(
            base_url=plane.url,
            verify=plane.tls(),
            headers={"Authorization": "Bearer admin-token", "User-Agent": "transcript/1"},
            timeout=30,
        ) as found,
    ):
        await plane.install_crds([RECORDED["crd"]])
        await found.post("/api/v1/namespaces", json={"metadata": {"name": "lab"}})
        yield found


async def play(
    step: dict[str, Any], client: httpx.AsyncClient, hook: Hook
) -> tuple[dict[str, Any], list[Any]]:
    """Send a step; return the masked answer and the masked reviews."""
    path, body = configuration(step["id"], hook)
    await client.post(path, json=body)
    hook.answer = step["hookAnswers"]
    request = step["request"]
    content = None if request["body"] is None else json.dumps(request["body"])
    headers = {"Content-Type": request["contentType"]}
    answer = await client.request(
        request["method"], request["path"], content=content, headers=headers
    )
    await client.delete(f"{path}/lab")
    text = json.loads(answer.text.replace(hook.url, RECORDED_HOOK))
    warnings = answer.headers.get_list("warning")
    described = {"status": answer.status_code, "body": mask(text), "warnings": warnings}
    return described, [mask(one) for one in hook.asked()]


@pytest.mark.slow
async def test_hooks_are_asked_and_obeyed_as_by_the_real_server(
    client: httpx.AsyncClient,
) -> None:
    wrong: dict[str, Any] = {}
    async with hook_server() as hook:
        for step in RECORDED["steps"]:
            answer, reviews = await play(step, client, hook)
            if answer != step["response"] or reviews != step["reviews"]:
                wrong[step["id"]] = (answer, step["response"], reviews, step["reviews"])

    assert not wrong, json.dumps(wrong, indent=1)
