"""Writing promises to allocations: the writes of all pools together are limited."""

from typing import Any

import anyio

from reconcilers.api.ipallocation import IPAllocation
from reconcilers.networkpool.pending_promises import AllocationWriter
from tests.reconcilers import make

WIDTH = 4
"""How many writes may run at the same time."""


class CountingClient:
    """A client whose writes take a while, and which counts the writes that run at the same time.

    Attributes:
        running: how many writes run now.
        most: the most writes that ever ran at the same time.
        written: the names of the written allocations, in order.
    """

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.written = list[str]()

    async def patch_status(
        self, _resource: Any, allocation: IPAllocation, _status: Any
    ) -> IPAllocation:
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        self.running -= 1
        self.written.append(allocation.metadata.name)
        return allocation


async def test_no_more_writes_than_the_width_run_at_the_same_time_for_all_pools() -> None:
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


async def test_the_results_of_a_batch_have_the_order_of_its_writes() -> None:
    client = CountingClient()
    writer = AllocationWriter(client, 1)  # type: ignore[arg-type]  # all that it calls
    allocations = [make.allocation(f"a-{number}") for number in range(5)]
    written = await writer.write([(allocation, {}) for allocation in allocations])
    names = [allocation.metadata.name for allocation in allocations]
    assert client.written == names
    assert [write.allocation.metadata.name for write in written] == names
