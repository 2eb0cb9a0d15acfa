"""The webhooks refuse objects of metal3 by its rules and with its messages."""

from typing import Any

import httpx
import pytest

from reconcilers.configuration.integrationnames import METAL3
from reconcilers.integrations.metal3.api import KINDS
from reconcilers.webhooks.configuration import INTEGRATIONS
from tests.contract.metal3.lab import PAUSED, Body, Metal3Lab
from tests.contract.metal3.webhooks import post_dry, with_webhooks

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def try_create(lab: Metal3Lab, kind: str, spec: Body, **metadata: Any) -> str:
    """Try to create an object by a dry run; return the refusal, or nothing if it is accepted."""
    return _get_refusal(await post_dry(lab, kind, spec, **metadata))


async def try_edit(lab: Metal3Lab, kind: str, name: str, spec: Body) -> str:
    """Try to edit a spec by a dry run; return the refusal, or nothing if it is accepted."""
    answer = await lab.admin.patch(
        lab.build_path(kind, name),
        json={"spec": spec},
        headers={"Content-Type": "application/merge-patch+json"},
        params={"dryRun": "All"},
    )
    return _get_refusal(answer)


def _get_refusal(answer: httpx.Response) -> str:
    """Return the message of a refusal; empty if the write was accepted."""
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


@with_webhooks
async def test_each_rule_refuses_with_the_message_of_metal3(lab: Metal3Lab) -> None:
    await lab.create_pool("p", RANGE)
    await lab.create_claim("a", "p", requested="10.0.0.5")
    assert await lab.wait_until_served("a") == "10.0.0.5"
    await lab.create_claim("b", "p", "IPAddressClaim", requested="10.0.0.6")
    assert await lab.wait_until_served("b", "IPAddressClaim") == "10.0.0.6"
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
    invalid_request = {"annotations": {"ipAddress": "no"}}
    refused = await try_create(lab, "IPClaim", {"pool": {"name": "p"}}, **invalid_request)
    assert "is not a valid IP address" in refused
    assert "spec.claim.name: Invalid value" in await try_create(lab, "IPAddress", {})
    await lab.create_claim("c", "p")
    assert await lab.wait_until_served("c") == "10.0.0.1"


async def test_each_kind_of_metal3_has_a_webhook() -> None:
    assert {resource for resource, _ in INTEGRATIONS[METAL3].values()} == set(KINDS)


@with_webhooks
async def test_edits_that_leave_out_addresses_in_use_are_refused_though_the_status_lacks_these(
    lab: Metal3Lab,
) -> None:
    await lab.create_pool("p", RANGE)
    await lab.create_claim("a", "p", requested="10.0.0.5")
    assert await lab.wait_until_served("a") == "10.0.0.5"
    await lab.patch("IPPool", "p", {"metadata": {"annotations": PAUSED}})
    await lab.patch("IPPool", "p", patch={"status": {"indexes": None}}, subresource="status")
    shrunk = {"pools": [{"start": "10.0.0.1", "end": "10.0.0.4"}]}
    assert "is in use but out of bounds" in await try_edit(lab, "IPPool", name="p", spec=shrunk)
    outside = {"preAllocations": {"b": "10.0.1.1"}}
    refused = await try_edit(lab, "IPPool", name="p", spec=outside)
    assert "is out of bounds of the pools given" in refused
    assert await try_edit(lab, "IPPool", name="p", spec={"allocationStrategy": "sequential"}) == ""
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


@with_webhooks
async def test_an_edit_of_the_address_that_a_claim_asks_for_is_validated(lab: Metal3Lab) -> None:
    await lab.create_pool("p", RANGE)
    await lab.create_claim("a", "p")
    for annotations, is_refused in (
        ({"ipAddress": "nonsense"}, True),
        ({"ipAddress": " 10.0.0.5 "}, False),
        ({"note": "nonsense"}, False),
        ({"ipAddress": None}, False),
    ):
        answer = await lab.admin.patch(
            lab.build_path("IPClaim", "a"),
            json={"metadata": {"annotations": annotations}},
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert (answer.status_code != 200) == is_refused, answer.text
        assert ("metadata.annotations[ipAddress]" in answer.text) == is_refused
