"""Writing promises to allocations: at most so many at once, of all pools together."""

from typing import Any

import anyio

from reconcilers.api.ipallocation import IPAllocation
from reconcilers.networkpool.pending_promises import AllocationWriter
from tests.reconcilers import make

WIDTH = 4


class CountingClient:
    """Takes a while for each write, and counts those that are under way."""

    def __init__(self) -> None:
        self.under_way = 0
        self.most = 0
        self.written = list[str]()

    async def patch_status(
        self, _resource: Any, allocation: IPAllocation, _status: Any
    ) -> IPAllocation:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        self.under_way -= 1
        self.written.append(allocation.metadata.name)
        return allocation


async def test_the_writes_of_all_pools_together_are_no_more_than_the_width() -> None:
    client = CountingClient()
    writer = AllocationWriter(client, WIDTH)  # type: ignore[arg-type]  # all that it calls
    batches: list[list[tuple[IPAllocation, dict[str, Any]]]] = [
        [(make.allocation(f"{pool}-{number}"), {}) for number in range(6)] for pool in "abc"
    ]
    async with anyio.create_task_group() as group:
        for batch in batches:
            group.start_soon(writer.write, batch)
    assert client.most == WIDTH
    assert len(client.written) == 18


async def test_a_single_batch_is_written_in_order_and_answered_in_order() -> None:
    client = CountingClient()
    writer = AllocationWriter(client, 1)  # type: ignore[arg-type]  # all that it calls
    allocations = [make.allocation(f"a-{number}") for number in range(5)]
    written = await writer.write([(allocation, {}) for allocation in allocations])
    names = [allocation.metadata.name for allocation in allocations]
    assert client.written == names
    assert [write.allocation.metadata.name for write in written] == names
