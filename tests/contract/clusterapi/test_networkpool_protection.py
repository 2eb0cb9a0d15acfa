"""Claims protect a NetworkPool from edits and deletion as IPAllocations do."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.config import connect
from envtest import ControlPlane
from reconcilers.configuration.integrationnames import CLUSTER_API
from tests.contract.clusterapi.lab import ClusterApiLab, find_condition, get_reason
from tests.contract.conftest import administrator
from tests.contract.product import HOME, install_kinds
from tests.contract.test_webhooks import SETTINGS, WebhookLab, read_causes

pytestmark = pytest.mark.asyncio(loop_scope="package")

CLAIM = f"IPAddressClaim {HOME}/c"
WITH_CLAIMS = replace(SETTINGS, integration=(CLUSTER_API,))
EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "a reservation": ({"reserved": [{"cidr": "10.66.0.0/30"}]}, "spec.reserved[0]"),
    "narrower ranges": (
        {"tenantAllocation": {"ranges": [{"start": "10.66.0.8", "end": "10.66.0.15"}]}},
        "spec.tenantAllocation",
    ),
    "a gateway": ({"gateway": "10.66.0.0"}, "spec.gateway"),
}
"""By description: a change of the spec that takes address 10.66.0.0, and the field at fault."""


async def test_webhooks_refuse_edits_and_a_deletion_that_would_take_the_address_of_a_claim(
    tmp_path: Path,
) -> None:
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install_kinds(plane, "clusterapi")
        await admin.post("/api/v1/namespaces", json={"metadata": {"name": HOME}})
        transport = await connect(plane.write_kubeconfig(tmp_path / "kubeconfig"))
        webhook_lab, lab = WebhookLab(admin, transport), ClusterApiLab(admin, HOME)
        async with webhook_lab.serve_webhooks(WITH_CLAIMS):
            assert (
                await webhook_lab.create("NetworkPool", "p", {"cidr": "10.66.0.0/28"})
            ).is_success
            await lab.create_claim("c", "p", "NetworkPool")
            assert await lab.wait_until_served("c") == "10.66.0.0"
            for spec, field in EDITS.values():
                refused = await webhook_lab.edit("NetworkPool", "p", {"spec": spec})
                [(where, message)] = read_causes(refused)
                assert where == field
                assert f"{CLAIM} has address 10.66.0.0" in message
            refused = await webhook_lab.delete("NetworkPool", "p")
            assert refused.status_code == 403
            assert f"{CLAIM} holds 10.66.0.0" in refused.json()["message"]

            await lab.delete("IPAddressClaim", "c")
            await lab.wait_until_gone("IPAddressClaim", "c")
            reserved = {"spec": {"reserved": [{"cidr": "10.66.0.0/30"}]}}
            assert (await webhook_lab.edit("NetworkPool", "p", reserved)).is_success
            assert (await webhook_lab.delete("NetworkPool", "p")).is_success
            await lab.wait_until_gone("NetworkPool", "p")
        await transport.aclose()


async def test_without_webhooks_a_networkpool_reports_claims_outside_and_is_kept_for_them(
    lab: ClusterApiLab,
) -> None:
    await lab.create("NetworkPool", "p", {"cidr": "10.66.0.0/28"})
    await lab.create_claim("c", "p", "NetworkPool")
    assert await lab.wait_until_served("c") == "10.66.0.0"
    holder = f"IPAddressClaim {lab.namespace}/c (10.66.0.0-10.66.0.0)"
    await lab.patch("NetworkPool", "p", {"spec": {"reserved": [{"cidr": "10.66.0.0/30"}]}})

    def is_reported(pool: dict[str, Any]) -> bool:
        out_of_range = find_condition(pool, "OutOfRange")
        return out_of_range.get("status") == "True" and holder in out_of_range["message"]

    await lab.until("NetworkPool", "p", is_reported)
    await lab.delete("NetworkPool", "p")
    pool = await lab.until("NetworkPool", "p", lambda pool: get_reason(pool) == "Deleting")
    assert find_condition(pool)["message"] == (
        f"waiting for 1 active allocation to be released, among them {holder}"
    )
    await lab.delete("IPAddressClaim", "c")
    await lab.wait_until_gone("NetworkPool", "p")
