"""Counts function calls: what work costs, the same in each run, whatever else the machine does."""

import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any


async def calls_of(work: Callable[[], Awaitable[object]]) -> int:
    """Return how many functions and methods are called, those written in C too."""
    calls = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        await work()
    finally:
        sys.setprofile(before)
    return calls
