"""The webhooks refuse objects of metal3 by its rules and with its messages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from controller.clock import SystemClock
from controller.config import connect
from controller.manager import Manager
from controller.options import ManagerOptions, SelfSigned
from reconcilers.configuration.integrationnames import METAL3
from reconcilers.integrations.metal3.api import KINDS
from reconcilers.spaces.index import SpaceIndex
from reconcilers.webhooks.admission import build_path
from reconcilers.webhooks.configuration import INTEGRATIONS, SERVICE, build_entries
from reconcilers.wiring.integrations import make_integration_webhooks
from tests.contract.metal3.lab import PAUSED, Body, Metal3Lab
from tests.contract.product import Server
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="package")
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
HOST, HOOK = "127.0.0.1", "metal3"


@asynccontextmanager
async def serve_webhooks(server: Server, lab: Metal3Lab) -> AsyncIterator[None]:
    """Serve the webhooks of metal3's kinds; inside the context the API server calls them."""
    transport = await connect(server.admin_kubeconfig)
    signed = SelfSigned("default", SERVICE, "certs", validating=[HOOK], names=[HOST])
    options = ManagerOptions(webhook_bind=f"{HOST}:0", webhook_self_signed=signed)
    manager = Manager(transport, clock=SystemClock(), options=options)
    for webhook in make_integration_webhooks(manager.client, [METAL3], SpaceIndex()):
        manager.add_webhook(webhook)
    validated = INTEGRATIONS[METAL3]
    resources = {name: resource for name, (resource, _) in validated.items()}
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_serving()
        url = f"https://{HOST}:{manager.webhook_port}"
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": HOOK},
            "webhooks": list(
                build_entries(
                    INTEGRATIONS[METAL3],
                    lambda name: {"url": f"{url}{build_path(resources[name])}"},
                )
            ),
        }
        answer = await server.admin.post(CONFIGURATIONS, json=body)
        assert answer.status_code == 201, answer.text
        for kind in ("IPPool", "IPClaim", "IPAddress"):
            await until(partial(_is_webhook_called, lab, kind), bool)
        yield
        await server.admin.delete(f"{CONFIGURATIONS}/{HOOK}")
        manager.stop()
    await transport.aclose()


MINIMAL_SPECS: Body = {
    "IPPool": {"namePrefix": "p", "pools": [{}]},
    "IPClaim": {"pool": {}},
    "IPAddress": {"address": "10.0.0.1", "pool": {}, "claim": {}},
}
"""By kind: a spec with all fields that the schema requires; the webhooks refuse it."""


async def _is_webhook_called(lab: Metal3Lab, kind: str) -> bool:
    """Return whether the API server calls the webhook of a kind; only a request can tell."""
    return (await _post_dry(lab, kind, {})).status_code == 422


async def try_create(lab: Metal3Lab, kind: str, spec: Body, **metadata: Any) -> str:
    """Try to create an object by a dry run; return the refusal, or nothing if it is accepted."""
    return _get_refusal(await _post_dry(lab, kind, spec, **metadata))


async def _post_dry(lab: Metal3Lab, kind: str, spec: Body, **metadata: Any) -> httpx.Response:
    body: Body = {
        "apiVersion": "ipam.metal3.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "tried", **metadata},
        "spec": {**MINIMAL_SPECS[kind], **spec},
    }
    return await lab.admin.post(lab.path(kind), json=body, params={"dryRun": "All"})


async def try_edit(lab: Metal3Lab, kind: str, name: str, spec: Body) -> str:
    """Try to edit a spec by a dry run; return the refusal, or nothing if it is accepted."""
    answer = await lab.admin.patch(
        lab.path(kind, name),
        json={"spec": spec},
        headers={"Content-Type": "application/merge-patch+json"},
        params={"dryRun": "All"},
    )
    return _get_refusal(answer)


def _get_refusal(answer: httpx.Response) -> str:
    assert answer.status_code in {200, 201, 422}, answer.text
    return "" if answer.status_code < 400 else str(answer.json()["message"])


RANGE = {"start": "10.0.0.1", "end": "10.0.0.9"}
POOL_CASES: list[tuple[Body, str]] = [
    ({"pools": [{}]}, "pool entry must specify at least one of start, end, or subnet"),
    (
        {"pools": [{"start": "10.0.0.2", "end": "10.0.0.1"}]},
        "end IP 10.0.0.1 is before start IP 10.0.0.2",
    ),
    (
        {"pools": [RANGE], "preAllocations": {"a": "10.0.1.1"}},
        "is out of bonds of the pools given",
    ),
    (
        {"pools": [RANGE], "preAllocations": {"a": "10.0.0.1", "b": "10.0.0.1"}},
        'IP address is already pre-allocated to claim "a"',
    ),
    (
        {"pools": [{"start": "10.0.0.1"}], "allocationStrategy": "random"},
        'cannot be used with allocationStrategy "random": ',
    ),
    ({"pools": [RANGE], "preAllocations": {"a": "10.0.0.1"}}, ""),
]


async def test_each_rule_refuses_with_the_message_of_metal3(
    lab: Metal3Lab, server: Server
) -> None:
    await lab.create_pool("p", RANGE)
    await lab.create_claim("a", "p", requested="10.0.0.5")
    assert await lab.wait_until_served("a") == "10.0.0.5"
    await lab.create_claim("b", "p", "IPAddressClaim", requested="10.0.0.6")
    assert await lab.wait_until_served("b", "IPAddressClaim") == "10.0.0.6"
    async with serve_webhooks(server, lab):
        for spec, message in POOL_CASES:
            refused = await try_create(lab, "IPPool", spec)
            assert message in refused
            assert bool(message) == bool(refused)
        shrunk = {"pools": [{"start": "10.0.0.1", "end": "10.0.0.4"}]}
        in_use = await try_edit(lab, "IPPool", name="p", spec=shrunk)
        assert 'Invalid value: "10.0.0.5": is in use but out of bounds' in in_use
        assert "10.0.0.6" in in_use
        kept = {"pools": [{"start": "10.0.0.5", "end": "10.0.0.6"}]}
        assert await try_edit(lab, "IPPool", name="p", spec=kept) == ""
        for kind, name, edit, message in (
            ("IPPool", "p", {"namePrefix": "q"}, "cannot be modified"),
            ("IPPool", "p", {"allocationStrategy": "random"}, "cannot be modified after creation"),
            ("IPClaim", "a", {"pool": {"name": "q"}}, "spec.pool: "),
            ("IPAddress", "p-10-0-0-5", {"address": "10.0.0.7"}, "cannot be modified"),
            ("IPAddress", "p-10-0-0-5", {"pool": {"name": "q"}}, "cannot be modified"),
            ("IPAddress", "p-10-0-0-5", {"claim": {"name": "q"}}, "cannot be modified"),
        ):
            assert message in await try_edit(lab, kind, name=name, spec=edit)
        assert "spec.pool.name: Invalid value" in await try_create(lab, "IPClaim", {})
        wish = {"annotations": {"ipAddress": "no"}}
        refused = await try_create(lab, "IPClaim", {"pool": {"name": "p"}}, **wish)
        assert "is not a valid IP address" in refused
        assert "spec.claim.name: Invalid value" in await try_create(lab, "IPAddress", {})
        await lab.create_claim("c", "p")
        assert await lab.wait_until_served("c") == "10.0.0.1"


async def test_each_kind_of_metal3_has_a_webhook() -> None:
    assert {resource for resource, _ in INTEGRATIONS[METAL3].values()} == set(KINDS)


async def test_edits_are_judged_by_the_addresses_in_use_also_if_the_status_lacks_them(
    lab: Metal3Lab, server: Server
) -> None:
    await lab.create_pool("p", RANGE)
    await lab.create_claim("a", "p", requested="10.0.0.5")
    assert await lab.wait_until_served("a") == "10.0.0.5"
    await lab.patch("IPPool", "p", {"metadata": {"annotations": PAUSED}})
    await lab.patch("IPPool", "p", patch={"status": {"indexes": None}}, subresource="status")
    async with serve_webhooks(server, lab):
        shrunk = {"pools": [{"start": "10.0.0.1", "end": "10.0.0.4"}]}
        assert "is in use but out of bounds" in await try_edit(
            lab, "IPPool", name="p", spec=shrunk
        )
        outside = {"preAllocations": {"b": "10.0.1.1"}}
        refused = await try_edit(lab, "IPPool", name="p", spec=outside)
        assert "is out of bounds of the pools given" in refused
        assert (
            await try_edit(lab, "IPPool", name="p", spec={"allocationStrategy": "sequential"})
            == ""
        )
        for reference in ({"namespace": "elsewhere"}, {"kind": "Other"}):
            refused = await try_edit(lab, "IPClaim", name="a", spec={"pool": reference})
            assert "spec.pool: " in refused
            assert "cannot be modified" in refused
        by_hand = {"pool": {"name": "p"}, "claim": {"name": "b"}}
        assert await try_create(lab, "IPAddress", {"address": "10.0.0.7", **by_hand}) == ""
        assert "spec.pool.name: " in await try_create(lab, "IPAddress", {**by_hand, "pool": {}})
        await lab.delete("IPClaim", "a")  # a deletion is never refused
    await lab.patch("IPPool", "p", {"metadata": {"annotations": dict.fromkeys(PAUSED)}})
    await lab.wait_until_gone("IPClaim", "a")


async def test_an_edit_of_the_address_that_a_claim_asks_for_is_validated(
    lab: Metal3Lab, server: Server
) -> None:
    await lab.create_pool("p", RANGE)
    async with serve_webhooks(server, lab):
        await lab.create_claim("a", "p")
        for annotations, is_refused in (
            ({"ipAddress": "nonsense"}, True),
            ({"ipAddress": " 10.0.0.5 "}, False),
            ({"note": "nonsense"}, False),
            ({"ipAddress": None}, False),
        ):
            answer = await lab.admin.patch(
                lab.path("IPClaim", "a"),
                json={"metadata": {"annotations": annotations}},
                headers={"Content-Type": "application/merge-patch+json"},
            )
            assert (answer.status_code != 200) == is_refused, answer.text
            assert ("metadata.annotations[ipAddress]" in answer.text) == is_refused
