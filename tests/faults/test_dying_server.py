"""An API server that is killed in the middle of bursts, and comes back at the same address."""

from functools import partial
from typing import Any

import anyio
import pytest
import yaml

from controller.clock import SystemClock
from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from manifests import get_folder
from reconcilers.api.ipallocation import ALLOCATED
from tests.faults.estate import HOME, LARGE, Estate, run_bare_estate
from tests.faults.parts import access_processes
from tests.faults.slowdeletions import connect_admin

pytestmark = pytest.mark.slow

BURST = 100
"""How many allocations a burst has: too many to be served before the API server is killed."""
ACCOUNT = f"system:serviceaccount:{HOME}:butler-ipam"


async def test_every_allocation_of_a_burst_is_served_although_the_api_server_is_killed() -> None:
    async with (
        ControlPlane.start() as plane,
        access_processes(plane) as parts,
        run_bare_estate(plane, cidr=LARGE) as estate,
    ):
        await _use_shipped_roles(estate)
        estate.start_process(clock=SystemClock())
        estate.start_process(clock=SystemClock())
        await estate.create_cluster()
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        # One burst for each death: the rest of the first is served before all watches are back.
        for burst in range(2):
            async with anyio.create_task_group() as group:
                for number in range(burst * BURST, (burst + 1) * BURST):
                    group.start_soon(
                        estate.create_allocation_retrying, f"n{number}", 1 + number % 3
                    )
                await estate.witness.wait_while(
                    partial(_describe_unserved, estate, _count_served(estate) + BURST // 5)
                )
                await parts.kill_apiserver()
                assert _count_served(estate) < (burst + 1) * BURST, (
                    "it died when nothing was left to do"
                )
                await parts.start_apiserver()
            await estate.witness.wait_while(estate.witness.describe_unsettled)
        assert estate.witness.overlaps == []


def _count_served(estate: Estate[Plane]) -> int:
    """Return how many requests of the bursts are served."""
    allocations = estate.witness.caches["ipallocations"]
    return sum(
        allocation.status.phase == ALLOCATED and allocation.metadata.name[0] == "n"
        for allocation in allocations
    )


def _describe_unserved(estate: Estate[Plane], served_count: int) -> str:
    """Return that fewer than `served_count` allocations are served; empty if they are."""
    now = _count_served(estate)
    return f"{now} of {served_count} are served" if now < served_count else ""


async def _use_shipped_roles(estate: Estate[Plane]) -> None:
    """Let new processes connect as the ServiceAccount of the product, with its shipped roles."""
    estate.user = ACCOUNT
    await estate.management.add_user(ACCOUNT)
    async with connect_admin(estate.management) as http:
        for file in sorted(get_folder("rbac").iterdir(), key=lambda path: path.name):
            for body in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                if body and body["apiVersion"].startswith("rbac."):
                    response = await http.post(_build_collection_path(body), json=body)
                    assert response.status_code == 201, response.text


def _build_collection_path(body: dict[str, Any]) -> str:
    namespace = body["metadata"].get("namespace")
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{body['apiVersion']}{within}/{body['kind'].lower()}s"
