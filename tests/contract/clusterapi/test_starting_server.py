"""While a starting server's discovery lacks kinds, addresses that claims hold stay held."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from typing_extensions import override

from envtest.faults import Fault, Match, Proxy
from envtest.plane import RunningControlPlane as Plane
from tests.contract.clusterapi.lab import ClusterApiLab, get_reason, get_status
from tests.contract.product import install_kinds, product

NETWORK_POOL = {"apiGroup": "butler.butlerlabs.dev", "kind": "NetworkPool", "name": "lab"}


class WithoutGroups(Fault):
    """Answers the list of API groups without those of CustomResourceDefinitions."""

    @override
    def alter_piece(self, number: int, piece: bytes) -> Iterator[bytes]:
        if not number:
            yield piece
            return
        document = msgspec.json.decode(piece)
        built_in = [
            group
            for group in document["groups"]
            if not group["name"].endswith((".x-k8s.io", ".dev"))
        ]
        yield msgspec.json.encode({**document, "groups": built_in})


async def create_allocation(lab: ClusterApiLab, name: str) -> None:
    """Create an IPAllocation of eight addresses of the NetworkPool `lab`."""
    spec = {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": "a", "namespace": "team"},
        "type": "nodes",
        "count": 8,
    }
    await lab.create("IPAllocation", name, spec)


@pytest.mark.slow
async def test_no_address_of_a_claim_is_allocated_while_discovery_lacks_the_claims_kind(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await install_kinds(plane, "clusterapi")
    lab, log = ClusterApiLab(admin, "machines"), tmp_path / "log"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lab.namespace}}
    assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
    await lab.create("NetworkPool", "lab", {"cidr": "10.1.0.0/28"})
    with product("clusterapi", plane.write_kubeconfig(tmp_path / "direct"), log):
        for number in range(4):
            await lab.create("IPAddressClaim", f"m{number}", {"poolRef": NETWORK_POOL})
        held_addresses = {await lab.wait_until_served(f"m{number}") for number in range(4)}
    assert len(held_addresses) == 4

    async with Proxy.run_before(plane) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path / "kubeconfig")
        groups = Match(where=lambda call: call.path == "/apis")
        with product("clusterapi", kubeconfig, log):
            with proxy.inject(WithoutGroups(), groups):
                await create_allocation(lab, "block")
                await lab.until(
                    "NetworkPool",
                    "lab",
                    lambda pool: get_reason(pool) == "HoldersUnknown",
                )
                waiting = await lab.until(
                    "IPAllocation",
                    "block",
                    lambda allocation: get_status(allocation).get("phase") == "Pending",
                )
                assert "startAddress" not in waiting["status"]
            served_allocation = await lab.until(
                "IPAllocation",
                "block",
                lambda allocation: bool(get_status(allocation).get("startAddress")),
            )
    first, last = (
        int(served_allocation["status"][name].rpartition(".")[2])
        for name in ("startAddress", "endAddress")
    )
    assert last - first == 7
    assert not {int(address.rpartition(".")[2]) for address in held_addresses} & set(
        range(first, last + 1)
    )

    await lab.until("NetworkPool", "lab", lambda pool: get_reason(pool) == "Ready")
