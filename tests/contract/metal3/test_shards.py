"""Two processes with a shard each: the holder of shard 0 serves all IPPools."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from controller.shards import build_lease_name
from envtest import ControlPlane
from reconcilers.cli.managerflags import LEASE_NAME
from tests.contract.conftest import administrator
from tests.contract.metal3.lab import ADDRESS_KINDS, CLAIM_KINDS, Metal3Lab
from tests.contract.metal3.test_two_instances import count_served, create_claims, wait_until_served
from tests.contract.product import (
    DATA,
    HOME,
    install_kinds,
    install_roles,
    product,
    under_shipped_roles,
)
from tests.polling import until
from tests.reconcilers.cli.test_run import FAST_LEADER_ELECTION
from tests.yamls import read_all_yaml

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]
FLAGS = ("--shards=2", *FAST_LEADER_ELECTION)


async def test_two_processes_with_a_shard_each_serve_each_claim_once_also_after_one_ends(
    tmp_path: Path,
) -> None:
    crds = read_all_yaml((DATA / "clusterapi" / "crds.yaml").read_text(encoding="utf-8"))
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install_kinds(plane, "metal3", crds)
        kubeconfig = await under_shipped_roles(plane, admin, where=tmp_path, integration="metal3")
        await install_roles(admin, "shards")
        lab = Metal3Lab(admin, HOME)
        await lab.create_pool("p", {"subnet": "10.0.0.0/24"})
        with (
            product("metal3", kubeconfig, tmp_path / "first", *FLAGS) as first,
            product("metal3", kubeconfig, tmp_path / "second", *FLAGS) as second,
        ):
            await until(lambda: list_holders(lab), lambda holders: len(holders) == 2)
            await create_claims(lab, 0, 40)
            await wait_until_served(lab, 40)
            await check_different_addresses(lab, 40)
            first.send_signal(signal.SIGTERM)
            await create_claims(lab, 40, 60)
            await wait_until_served(lab, 60)
            await check_different_addresses(lab, 60)
            await until(lambda: list_holders(lab), lambda holders: len(holders) == 1)
            assert second.poll() is None


async def list_holders(lab: Metal3Lab) -> set[str]:
    """Return the holders of the Leases of both shards; empty while a shard is free."""
    answer = await lab.admin.get(f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases")
    assert answer.status_code == 200, answer.text
    leases = {lease["metadata"]["name"]: lease["spec"] for lease in answer.json()["items"]}
    names = (build_lease_name(LEASE_NAME, 2, shard) for shard in range(2))
    holders = {leases.get(name, {}).get("holderIdentity") or "" for name in names}
    return set() if "" in holders else holders


async def check_different_addresses(lab: Metal3Lab, count: int) -> None:
    """Check that `count` claims have different addresses, and one IPAddress each."""
    assert await count_served(lab) == count
    addresses = [
        item for kind in CLAIM_KINDS for item in await lab.list_objects(ADDRESS_KINDS[kind])
    ]
    counts = Counter(item["spec"]["address"] for item in addresses)
    assert (len(addresses), len(counts)) == (count, count)
