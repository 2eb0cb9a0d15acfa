"""A NetworkPool that is being deleted: its figures stay current while it waits for its holders."""

from typing_extensions import override

from controller.outcome import SETTLED, Blocked
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.claims import ClaimService
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

DELETING = Blocked("Deleting", 10.0)


async def _make_served_lab(*names: str) -> Lab:
    """Return a lab whose pool has served an allocation of 64 addresses for each name."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    for name in names:
        lab.server.add("ipallocations", make.allocation(name, size=64))
    await lab.run_pool_pass()
    await lab.run_pool_pass()
    return lab


def _read_figures(lab: Lab) -> tuple[int, int, int, int]:
    """Return the pool's total, allocated and available addresses, and its allocations."""
    status = lab.read_status("networkpools", "lab")
    return (
        status["totalIPs"],
        status["allocatedIPs"],
        status["availableIPs"],
        status["allocationCount"],
    )


def _read_reason(lab: Lab, kind: str) -> str:
    """Return the reason of the pool's condition of this type."""
    return str(lab.find_condition("networkpools", "lab", kind)["reason"])


async def test_released_addresses_are_available_in_the_figures_of_a_deleted_pool() -> None:
    lab = await _make_served_lab("a", "b", "c")
    assert _read_figures(lab) == (256, 192, 64, 3)
    assert lab.find_condition("networkpools", "lab", "CapacityWarning")["status"] == "True"
    lab.server.delete("networkpools", "lab")
    assert await lab.run_pool_pass() == DELETING
    assert _read_figures(lab) == (256, 192, 64, 3)
    lab.server.vanish("ipallocations", "a")
    assert await lab.run_pool_pass() == DELETING
    assert _read_figures(lab) == (256, 128, 128, 2)
    assert lab.find_condition("networkpools", "lab", "CapacityWarning")["status"] == "False"
    assert _read_reason(lab, "Ready") == "Deleting"
    assert "PoolCapacityRecovered" in lab.recorded.reasons
    lab.server.requests.clear()
    await lab.run_pool_pass()
    assert lab.server.requests == []
    for name in "bc":
        lab.server.vanish("ipallocations", name)
    assert await lab.run_pool_pass() == SETTLED


async def test_an_edit_of_the_spec_changes_the_figures_while_the_deletion_waits() -> None:
    lab = await _make_served_lab("a")
    lab.server.delete("networkpools", "lab")
    await lab.run_pool_pass()
    lab.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/25"}})
    assert await lab.run_pool_pass() == DELETING
    assert _read_figures(lab) == (128, 64, 64, 1)
    lab.server.edit("networkpools", "lab", {"spec": {"cidr": "10.41.0.0/25"}})
    assert await lab.run_pool_pass() == DELETING
    assert lab.find_condition("networkpools", "lab", "OutOfRange")["status"] == "True"
    lab.server.edit("networkpools", "lab", {"spec": {"cidr": "nonsense"}})
    assert await lab.run_pool_pass() == DELETING
    assert _read_reason(lab, "Stalled") == "ValidationFailed"
    assert _read_reason(lab, "Ready") == "Deleting"


async def test_writing_the_figures_of_a_deleted_pool_drops_no_promise() -> None:
    lab = await _make_served_lab("a")
    promised = lab.read_status("networkpools", "lab")["assignments"]
    assert [promise["name"] for promise in promised] == ["a"]
    lab.server.delete("networkpools", "lab")
    assert await lab.run_pool_pass() == DELETING
    assert lab.read_status("networkpools", "lab")["assignments"] == promised


class AbsentClaims(ClaimService):
    """Claims of Cluster API whose kinds the cluster does not serve.

    The pool may still count its holders: `check_counts` raises nothing.
    """

    @override
    def check_counts(self, pool: NetworkPool) -> None:
        return


async def test_the_figures_of_a_deleted_pool_do_not_count_promises_to_claims() -> None:
    """Replicas that have read different claims would overwrite each other's counts of promises."""
    lab = await _make_served_lab("a")
    pool = lab.server.see("networkpools", "lab")
    [to_allocation] = pool["status"]["assignments"]
    to_claim = make.render_claim_promise("10.40.0.200", "10.40.0.200", name="vm")
    lab.server.edit("networkpools", "lab", make.replace_promises(pool, to_allocation, to_claim))
    lab.server.delete("networkpools", "lab")
    replica = lab.make_pool_reconciler(claims=AbsentClaims())
    for _ in range(2):
        assert await replica.reconcile(make.key("lab")) == DELETING
    assert _read_figures(lab) == (256, 64, 192, 1)
    lab.server.requests.clear()
    assert await replica.reconcile(make.key("lab")) == DELETING
    assert lab.server.requests == []
