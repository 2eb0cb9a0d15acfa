"""A fence gives each request that a lost promise may name a new resourceVersion.

A write of the lost promise fails after that, because it names the resourceVersion before.
"""

import pytest

from controller.errors import Conflict, ControllerError, Forbidden
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.promises.fence import Fence
from reconcilers.promises.reading import highest_revision
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

DENIED = 'admission webhook "policy.example.com" denied the request'


def _make_lab(*names: str) -> Lab:
    """Return a lab with allocations of these names."""
    lab = Lab()
    for name in names:
        lab.server.add("ipallocations", make.allocation(name))
    return lab


def _read_revision(lab: Lab, name: str) -> int:
    """Return the resourceVersion of an allocation."""
    return int(lab.server.see("ipallocations", name)["metadata"]["resourceVersion"])


async def _list_allocations(lab: Lab) -> list[IPAllocation]:
    """Return all stored allocations."""
    return list((await lab.client.list(IP_ALLOCATION)).items)


def _make_fence(
    lab: Lab, error: ControllerError | None = None, *, refused: str = ""
) -> Fence[IPAllocation]:
    """Return a fence that voids promises to all allocations but `held`.

    Args:
        lab: the cluster.
        error: raised instead of the write to the allocation `refused`; None to refuse none.
        refused: the name of that allocation.
    """

    async def void(allocation: IPAllocation) -> IPAllocation:
        if error is not None and allocation.metadata.name == refused:
            raise error
        status = {"message": f"void at {lab.clock.now().isoformat()}", "phase": "Pending"}
        return await lab.client.patch_status(IP_ALLOCATION, allocation, status)

    return Fence(
        lab.client,
        IP_ALLOCATION,
        may_have_promise=lambda allocation: allocation.metadata.name != "held",
        void=void,
        width=8,
    )


async def test_each_request_that_may_have_a_promise_gets_another_version() -> None:
    lab = _make_lab("a", "held")
    before = _read_revision(lab, "a"), _read_revision(lab, "held")
    current = await _make_fence(lab).void_earlier(await _list_allocations(lab))
    assert (_read_revision(lab, "a") > before[0], _read_revision(lab, "held")) == (True, before[1])
    assert highest_revision(current) == _read_revision(lab, "a")
    assert {allocation.metadata.name for allocation in current} == {"a", "held"}


async def test_a_request_that_was_edited_meanwhile_is_read_again() -> None:
    lab = _make_lab("a", "b")
    listed = await _list_allocations(lab)
    lab.server.edit("ipallocations", "b", {"status": {"startAddress": "10.40.0.0"}})
    current = await _make_fence(lab).void_earlier(listed)
    by_name = {allocation.metadata.name: allocation for allocation in current}
    assert by_name["b"].status.startAddress == "10.40.0.0"
    assert by_name["b"].metadata.revision == _read_revision(lab, "b")
    assert lab.server.count(verb="list", plural="ipallocations") == 1


async def test_a_deleted_request_is_left_out() -> None:
    lab = _make_lab("a", "b")
    listed = await _list_allocations(lab)
    lab.server.vanish("ipallocations", "b")
    current = await _make_fence(lab).void_earlier(listed)
    assert [allocation.metadata.name for allocation in current] == ["a"]


@pytest.mark.parametrize(
    "error",
    [
        Conflict(409, "Conflict", DENIED),
        Conflict(409, "Conflict", "odd"),
        Forbidden(403, "Forbidden", "quota"),
    ],
    ids=["denied as a conflict", "a conflict of the same version", "forbidden"],
)
async def test_a_refused_write_raises_an_error_that_is_no_conflict(error: ControllerError) -> None:
    lab = _make_lab("a", "b")
    with pytest.raises(ControllerError) as raised:
        await _make_fence(lab, error, refused="b").void_earlier(await _list_allocations(lab))
    assert not isinstance(raised.value, Conflict), "a pass repeats at once after a conflict"
