"""Reading a long list does not keep other tasks waiting."""

from typing import Any, cast

import anyio
from anyio.lowlevel import checkpoint

from controller.codec import SLICE
from controller.lists import list_all
from controller.transport import Transport
from tests.controller.widgets import WIDGETS, listing, widget


class OnePage:
    """A server that answers each list with one long page."""

    def __init__(self, count: int) -> None:
        self._data = listing(9, *(widget(f"w{number}", number + 1) for number in range(count)))

    async def request(self, *_: Any, **__: Any) -> bytes:
        """Return the page."""
        return self._data


async def test_other_tasks_run_while_a_long_page_is_decoded() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    server = cast("Transport", OnePage(20 * SLICE))
    async with anyio.create_task_group() as group:
        group.start_soon(count_turns)
        page = await list_all(server, WIDGETS, "", {"resourceVersion": "0"})
        group.cancel_scope.cancel()
    assert len(page.items) == 20 * SLICE
    assert page.items[-1] == widget(f"w{20 * SLICE - 1}", 20 * SLICE)
    assert turns >= 19
