"""Claims of a namespace over its ResourceQuota wait; those of other namespaces are served."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.contract.clusterapi.lab import IPAM, ClusterApiLab, find_condition
from tests.contract.product import Server
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="package")

ADDRESSES = f"count/ipaddresses.{IPAM}"
PROBE = "count/configmaps"
"""The limit by which `Quota.is_enforced` finds out whether quotas are enforced."""
RESYNC = 60.0
"""Seconds after which a refused write is tried again."""


class Quota:
    """The ResourceQuota `q` of a namespace.

    kube-controller-manager does not run here, so these methods write the quota's status. Without
    a status, admission denies the creation of every object that the quota counts.

    Args:
        admin: the administrator's client.
    """

    def __init__(self, admin: httpx.AsyncClient, namespace: str) -> None:
        self._admin = admin
        self._path = f"/api/v1/namespaces/{namespace}"

    async def create(self, **hard: str) -> None:
        """Create the quota with these limits; nothing is used yet."""
        spec = {"hard": hard}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
        answer = await self._admin.post(f"{self._path}/resourcequotas", json=body | {"spec": spec})
        assert answer.status_code == 201, answer.text
        await self._patch("/status", {"status": spec | {"used": dict.fromkeys(hard, "0")}})

    async def change_limits(self, **hard: str) -> None:
        """Change limits of the quota."""
        await self._patch("", {"spec": {"hard": hard}})
        await self._patch("/status", {"status": {"hard": hard}})

    async def is_enforced(self) -> bool:
        """Return whether the API server denies a second ConfigMap; the limit of PROBE is 1."""

        async def create_config_map() -> bool | None:
            """Return whether the quota is enforced; None while that is open."""
            metadata = {"generateName": "probe-"}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            answer = await self._admin.post(f"{self._path}/configmaps", json=body)
            created.append(answer.is_success)
            if "exceeded quota" in answer.text:
                return True
            return False if sum(created) > 1 else None

        created: list[bool] = []
        return bool(await until(create_config_map, lambda verdict: verdict is not None))

    async def _patch(self, subresource: str, patch: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        path = f"{self._path}/resourcequotas/q{subresource}"
        answer = await self._admin.patch(path, json=patch, headers=headers)
        assert answer.status_code == 200, answer.text


@pytest_asyncio.fixture(loop_scope="package")
async def other(server: Server) -> AsyncIterator[ClusterApiLab]:
    """The objects of Cluster API in a namespace without quota."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "other-"}}
    created = (await server.admin.post("/api/v1/namespaces", json=body)).json()
    yield ClusterApiLab(server.admin, created["metadata"]["name"])


async def test_claims_over_a_quota_wait_until_it_is_raised_and_do_not_block_other_namespaces(
    lab: ClusterApiLab, other: ClusterApiLab
) -> None:
    quota = Quota(lab.admin, lab.namespace)
    await quota.create(**{ADDRESSES: "1", PROBE: "1"})
    if not await quota.is_enforced():
        pytest.skip("this API server does not enforce ResourceQuotas")
    kind, pool = "GlobalInClusterIPPool", f"shared-{lab.namespace}"
    await lab.create_pool(pool, "10.0.0.10-10.0.0.19", kind=kind)
    await lab.create_claim("first", pool, kind)
    await lab.wait_until_served("first")
    for name in ("a", "b", "c"):
        await lab.create_claim(name, pool, kind)
    for name in ("a", "b", "c"):
        waiting_claim = await lab.wait_for_reason(name, "AllocationFailed")
        assert (
            f"exceeded quota: q, requested: {ADDRESSES}=1"
            in find_condition(waiting_claim)["message"]
        )
    for name in ("x", "y", "z"):
        await other.create_claim(name, pool, kind)
    addresses = [await other.wait_until_served(name) for name in ("x", "y", "z")]
    assert [
        find_condition(await lab.find("IPAddressClaim", name))["status"] for name in "abc"
    ] == (["False"] * 3)

    await quota.change_limits(**{ADDRESSES: "4"})
    for name in ("a", "b", "c"):
        await lab.until(
            "IPAddressClaim",
            name,
            lambda claim: find_condition(claim).get("status") == "True",
            seconds=2 * RESYNC,
        )
        addresses.append(await lab.wait_until_served(name))
    assert len(set(addresses)) == 6
    await lab.wait_for_counts(pool, total=10, used=7, free=3, out_of_range=0, kind=kind)
