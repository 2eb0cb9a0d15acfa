"""An API server that is killed in the middle of bursts, and comes back at the same address."""

from functools import partial
from typing import Any

import anyio
import pytest
import yaml

from controller.clock import SystemClock
from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from manifests import folder
from reconcilers.api.ipallocation import ALLOCATED
from tests.faults.estate import HOME, LARGE, Estate, bare_estate
from tests.faults.parts import taken_apart
from tests.faults.slowdeletions import people

pytestmark = pytest.mark.slow

ASKED = 100
"""In each burst: so many that the server is dead before they are served."""
ACCOUNT = f"system:serviceaccount:{HOME}:butler-ipam"


async def test_every_allocation_of_a_burst_is_served_although_the_api_server_is_killed() -> None:
    async with (
        ControlPlane.start() as plane,
        taken_apart(plane) as parts,
        bare_estate(plane, cidr=LARGE) as here,
    ):
        await _let_in(here)
        here.start(clock=SystemClock())
        here.start(clock=SystemClock())
        await here.create_cluster()
        await here.witness.until(here.witness.describe_unsettled)
        # One burst for each death: the rest of the first is served before all watches are back.
        for burst in range(2):
            async with anyio.create_task_group() as group:
                for number in range(burst * ASKED, (burst + 1) * ASKED):
                    group.start_soon(here.create_allocation_retrying, f"n{number}", 1 + number % 3)
                await here.witness.until(partial(_fewer, here, _count_served(here) + ASKED // 5))
                await parts.kill_apiserver()
                assert _count_served(here) < (burst + 1) * ASKED, (
                    "it died when nothing was left to do"
                )
                await parts.start_apiserver()
            await here.witness.until(here.witness.describe_unsettled)
        assert here.witness.clashes == []


def _count_served(here: Estate[Plane]) -> int:
    """Return how many requests of the bursts are served."""
    allocations = here.witness.caches["ipallocations"]
    return sum(
        allocation.status.phase == ALLOCATED and allocation.metadata.name[0] == "n"
        for allocation in allocations
    )


def _fewer(here: Estate[Plane], served_count: int) -> str:
    now = _count_served(here)
    return f"{now} of {served_count} are served" if now < served_count else ""


async def _let_in(here: Estate[Plane]) -> None:
    """Have the controllers connect as the account that they are installed with, and no other."""
    here.user = ACCOUNT
    await here.management.add_user(ACCOUNT)
    async with people(here.management) as http:
        for file in sorted(folder("rbac").iterdir(), key=lambda path: path.name):
            for body in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                if body and body["apiVersion"].startswith("rbac."):
                    response = await http.post(_collection(body), json=body)
                    assert response.status_code == 201, response.text


def _collection(body: dict[str, Any]) -> str:
    namespace = body["metadata"].get("namespace")
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{body['apiVersion']}{within}/{body['kind'].lower()}s"
