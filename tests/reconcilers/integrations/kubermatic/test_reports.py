"""Events about objects of KKP: a problem has one event until the object is recreated."""

from typing import cast

from controller.events import Recorder
from controller.meta import Key, ObjectMeta
from reconcilers.integrations.kubermatic.api import AllocationSpec, IPAMAllocation, IPAMPool
from reconcilers.integrations.kubermatic.facts import make_holder
from reconcilers.integrations.kubermatic.holdings import AllocationProblem
from reconcilers.integrations.kubermatic.reports import Reports
from tests.reconcilers.lab import Recorded

PROBLEM = AllocationProblem("Odd", "it is odd")
KEY = Key("cluster-a", "p")
HOLDER = make_holder(KEY.namespace, KEY.name)


def test_pools_and_allocations_that_are_recreated_get_their_events_again() -> None:
    recorded = Recorded()
    reports = Reports(cast("Recorder", recorded))
    for uid in ("1", "1", "2"):
        reports.record_pool(IPAMPool(ObjectMeta("p", uid=uid)), [PROBLEM])
        allocation = IPAMAllocation(ObjectMeta("p", "cluster-a", uid=uid), AllocationSpec())
        reports.record_allocations("p", {KEY: PROBLEM}, {HOLDER: allocation}.get)
    kinds = [kind for kind, _ in recorded.subjects]
    assert kinds == ["IPAMPool", "IPAMAllocation"] * 2
