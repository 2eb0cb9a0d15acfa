"""CRDs that are changed while the controllers run: for a moment their kinds answer 429.

kube-apiserver closes the storage of a kind when its schema changes. Watches end, and until the new
storage is ready every request is answered with "storage is (re)initializing".
"""

from typing import Any

import pytest
from structlog.testing import capture_logs

from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api.crd import build_crds
from tests.faults.estate import LARGE, PACE, SwiftClock, run_bare_estate
from tests.faults.slowdeletions import connect_admin

pytestmark = pytest.mark.slow

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ALLOCATIONS, BATCH = 60, 6
"""How many allocations are created, and how many of them between two changes of the CRDs."""


async def test_every_allocation_is_served_although_the_crds_are_written_all_the_time() -> None:
    async with ControlPlane.start() as plane:
        if plane.kind == "embedded":
            pytest.skip("the embedded server takes no storage apart: set KUBEBUILDER_ASSETS")
        async with run_bare_estate(plane, cidr=LARGE) as estate:
            with capture_logs() as logs:
                for _ in range(2):
                    estate.start_process(clock=SwiftClock(speed=PACE))
                await estate.create_cluster()
                for number in range(ALLOCATIONS):
                    if number % BATCH == 0:
                        await _write_crds(plane, str(number))
                    await estate.create_allocation_retrying(f"n{number}", count=1 + number % 3)
                await estate.witness.wait_while(estate.witness.describe_unsettled)
            assert [entry for entry in logs if "(re)initializing" in str(entry.get("error"))]
            assert estate.witness.overlaps == []


async def _write_crds(plane: Plane, description: str) -> None:
    """Change the description in the schema of each of our kinds."""
    async with connect_admin(plane) as http:
        for crd in build_crds():
            path = f"{CRDS}/{crd['metadata']['name']}"
            stored: dict[str, Any] = (await http.get(path)).json()
            schema = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            schema["description"] = description
            written = await http.put(path, json=stored)
            assert written.status_code == 200, written.text
