"""A NetworkPool that another controller wrote to before serves claims and allocations again."""

from pathlib import Path
from typing import Any

import pytest

from envtest import ControlPlane
from reconcilers.api import names
from reconcilers.integrations.clusterapi import crds
from reconcilers.reporting.conditions import FOREIGN_MANAGER
from tests.contract.clusterapi.lab import ClusterApiLab, find_condition
from tests.contract.conftest import administrator
from tests.contract.product import install_kinds, product, under_shipped_roles

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_claim_and_allocation_are_served_after_a_foreign_manager_without_a_journal(
    tmp_path: Path,
) -> None:
    # Once neither was served: the journal was only restored if the pool had no condition
    # ForeignManager, and that condition was only removed if the pool had a journal.
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install_kinds(plane, "clusterapi", crds.build_pool_crds())
        lab = ClusterApiLab(admin, "default")
        await lab.create("NetworkPool", "p", {"cidr": "10.0.0.0/24"})
        foreign_manager: dict[str, Any] = {
            "type": FOREIGN_MANAGER,
            "status": "True",
            "reason": "StatusWrittenByOthers",
            "message": "manager writes the pool's status",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await lab.patch(
            "NetworkPool",
            "p",
            patch={"status": {"conditions": [foreign_manager]}},
            subresource="status",
        )
        await lab.create_claim("c", "p", "NetworkPool")
        spec = {
            "poolRef": {"name": "p"},
            "tenantClusterRef": {"namespace": "default", "name": "missing"},
            "type": "loadbalancer",
            "count": 8,
        }
        await lab.create("IPAllocation", "a", spec)
        kubeconfig = await under_shipped_roles(
            plane, admin, where=tmp_path, integration="clusterapi"
        )
        flags = ("--pool-foreign-silence=3s", f"--namespace={names.DEFAULT_NAMESPACE}")
        with product("clusterapi", kubeconfig, tmp_path / "log", *flags):
            await lab.wait_until_served("c")
            await lab.until(
                "IPAllocation",
                "a",
                lambda allocation: allocation.get("status", {}).get("phase") == "Allocated",
            )
            pool = await lab.find("NetworkPool", "p")
            assert find_condition(pool, FOREIGN_MANAGER).get("status") != "True"
