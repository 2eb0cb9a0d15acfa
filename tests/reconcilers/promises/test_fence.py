"""A fence leaves no version of a request that a lost promise may name."""

import pytest

from controller.errors import Conflict, ControllerError, Forbidden
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.promises.fence import Fence
from reconcilers.promises.reading import highest_revision
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

DENIED = 'admission webhook "policy.example.com" denied the request'


def _lab(*names: str) -> Lab:
    lab = Lab()
    for name in names:
        lab.server.add("ipallocations", make.allocation(name))
    return lab


def _revision(lab: Lab, name: str) -> int:
    return int(lab.server.see("ipallocations", name)["metadata"]["resourceVersion"])


async def _list_allocations(lab: Lab) -> list[IPAllocation]:
    return list((await lab.client.list(IP_ALLOCATION)).items)


def _fence(
    lab: Lab, error: ControllerError | None = None, *, refused: str = ""
) -> Fence[IPAllocation]:
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


async def test_each_request_that_may_be_promised_gets_another_version() -> None:
    lab = _lab("a", "held")
    before = _revision(lab, "a"), _revision(lab, "held")
    current = await _fence(lab).void_earlier(await _list_allocations(lab))
    assert (_revision(lab, "a") > before[0], _revision(lab, "held")) == (True, before[1])
    assert highest_revision(current) == _revision(lab, "a")
    assert {allocation.metadata.name for allocation in current} == {"a", "held"}


async def test_a_request_that_moved_meanwhile_is_read_again_and_the_memory_reaches_it() -> None:
    lab = _lab("a", "b")
    listed = await _list_allocations(lab)
    lab.server.edit("ipallocations", "b", {"status": {"startAddress": "10.40.0.0"}})
    current = await _fence(lab).void_earlier(listed)
    by_name = {allocation.metadata.name: allocation for allocation in current}
    assert by_name["b"].status.startAddress == "10.40.0.0"
    assert by_name["b"].metadata.revision == _revision(lab, "b")
    assert lab.server.count(verb="list", plural="ipallocations") == 1


async def test_a_request_that_is_gone_is_left_out() -> None:
    lab = _lab("a", "b")
    listed = await _list_allocations(lab)
    lab.server.vanish("ipallocations", "b")
    current = await _fence(lab).void_earlier(listed)
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
async def test_a_refused_write_keeps_the_pool_without_memory(error: ControllerError) -> None:
    lab = _lab("a", "b")
    with pytest.raises(ControllerError) as raised:
        await _fence(lab, error, refused="b").void_earlier(await _list_allocations(lab))
    assert not isinstance(raised.value, Conflict), "a pass would begin again at once"
