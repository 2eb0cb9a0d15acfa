"""Two live processes write nothing once they have repaired what others left behind."""

from pathlib import Path

import anyio
import pytest

from tests.contract.metal3.lab import (
    ADDRESS_KINDS,
    CLAIM_KINDS,
    FINALIZERS,
    PATHS,
    PAUSED,
    Metal3Lab,
    get_problem,
)
from tests.contract.metal3.test_adoption import create_address, make_address_status
from tests.contract.product import Server, product
from tests.polling import keep_looking, until
from tests.reconcilers.cli.commands import find_installed_command

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]
LEFTOVERS = ("shared-a", "shared-b", "surplus", "lost", "failed")
"""Claims: two of one IPAddress, one of two, one of none, and one that shows an error, too."""
QUIET_SECONDS = 4.0
"""Seconds for which no object may be written."""


async def read_versions(lab: Metal3Lab) -> dict[str, str]:
    """Return the resourceVersions of all objects of the namespace."""
    kinds = [kind for kind in PATHS if kind != "Cluster"]
    return {
        f"{kind} {item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for kind in kinds
        for item in await lab.list_objects(kind)
    }


async def create_leftovers(lab: Metal3Lab, kind: str) -> None:
    """Create claims with shared, surplus, missing and other IPAddresses; see LEFTOVERS."""
    prefix = kind.lower()
    finalizers = [FINALIZERS[kind]]
    first = 1 + 20 * CLAIM_KINDS.index(kind)
    for number, name in enumerate(LEFTOVERS):
        last = first + (0 if name == "shared-b" else number)
        await lab.create_claim(
            f"{prefix}-{name}", "p", kind, finalizers=finalizers, annotations=PAUSED
        )
        status = make_address_status(lab, kind, f"p-10-0-0-{last}")["status"]
        if name == "failed" and kind == "IPClaim":
            status["errorMessage"] = "Exhausted IP Pools"
        await lab.patch(kind, f"{prefix}-{name}", patch={"status": status}, subresource="status")
        if name not in {"shared-b", "lost"}:
            address = f"10.0.0.{last}"
            await create_address(
                lab, kind, name=f"p-10-0-0-{last}", address=address, claim=f"{prefix}-{name}"
            )
    await create_address(
        lab,
        kind,
        name=f"by-hand-{prefix}",
        address=f"10.0.0.{first + 9}",
        claim=f"{prefix}-surplus",
    )
    for name in LEFTOVERS:
        unpaused = {"cluster.x-k8s.io/paused": None}
        await lab.patch(kind, f"{prefix}-{name}", {"metadata": {"annotations": unpaused}})


async def is_at_rest(lab: Metal3Lab) -> bool:
    """Return whether nothing is written for QUIET_SECONDS."""
    seen = await keep_looking(lambda: read_versions(lab), QUIET_SECONDS)
    return all(state == seen[0] for state in seen)


async def test_two_live_processes_write_nothing_at_rest(
    lab: Metal3Lab, server: Server, tmp_path: Path
) -> None:
    log = anyio.Path(tmp_path / "log")
    with product("metal3", server.kubeconfig, tmp_path / "log", program=find_installed_command):
        await until(log.read_text, lambda output: "Serving claims of IPPools" in output)
        entry = {"start": "10.0.0.1", "end": "10.0.0.99"}
        await lab.create_pool("p", entry, preAllocations={"x": "10.0.0.50"})
        for kind in CLAIM_KINDS:
            await create_leftovers(lab, kind)
        await lab.create_pool("long", {"subnet": "10.1.0.0/24"}, namePrefix="x" * 253)
        await lab.create_pool(
            "odd", {"end": "10.1.0.0"}, {"subnet": "10.1.0.1/32"}, namePrefix="A_B/c"
        )
        await lab.create_pool("wrong", {"subnet": "10.2.0.0/24"}, namePrefix="A_B/c")
        for kind in CLAIM_KINDS:
            for pool in ("long", "odd", "wrong", "nowhere"):
                await lab.create_claim(f"of-{pool}", pool, kind)
            for pool in ("long", "wrong"):
                await lab.until(
                    kind, f"of-{pool}", lambda body: "Failed to create" in get_problem(body)
                )
            await lab.wait_until_refused("of-odd", "Exhausted IP Pools", kind)
            await lab.create_claim("x", "p", kind)
            lost = f"p-10-0-0-{4 + 20 * CLAIM_KINDS.index(kind)}"
            await lab.until(ADDRESS_KINDS[kind], lost, bool)
        assert await lab.wait_until_served("x") == "10.0.0.50"
        await until(lambda: is_at_rest(lab), bool)
