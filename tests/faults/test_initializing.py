"""CRDs that are written while the controllers run: for a while their kinds answer 429.

kube-apiserver takes the storage of a kind apart when its schema changes: watches end, and until it
is there again every request is answered with "storage is (re)initializing".
"""

from typing import Any

import pytest
from structlog.testing import capture_logs

from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api.crd import crds
from tests.faults.estate import LARGE, PACE, SwiftClock, bare_estate
from tests.faults.slowdeletions import people

pytestmark = pytest.mark.slow

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ASKED, BETWEEN = 60, 6


async def test_every_allocation_is_served_although_the_crds_are_written_all_the_time() -> None:
    async with ControlPlane.start() as plane:
        if plane.kind == "embedded":
            pytest.skip("the embedded server takes no storage apart: set KUBEBUILDER_ASSETS")
        async with bare_estate(plane, cidr=LARGE) as here:
            with capture_logs() as logs:
                for _ in range(2):
                    here.start(clock=SwiftClock(speed=PACE))
                await here.create_cluster()
                for number in range(ASKED):
                    if number % BETWEEN == 0:
                        await _write_crds(plane, str(number))
                    await here.create_allocation_retrying(f"n{number}", count=1 + number % 3)
                await here.witness.until(here.witness.describe_unsettled)
            assert [entry for entry in logs if "(re)initializing" in str(entry.get("error"))]
            assert here.witness.clashes == []


async def _write_crds(plane: Plane, content: str) -> None:
    """Change the descriptions in the schemas of our kinds."""
    async with people(plane) as http:
        for crd in crds():
            path = f"{CRDS}/{crd['metadata']['name']}"
            stored: dict[str, Any] = (await http.get(path)).json()
            schema = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            schema["description"] = content
            written = await http.put(path, json=stored)
            assert written.status_code == 200, written.text
