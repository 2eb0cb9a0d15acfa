"""A running program that a storm kills or freezes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A running program.

    Args:
        pid: the number of its process.
        wait: waits until the program has ended.
        read_log: returns its log so far.
    """

    pid: int
    wait: Callable[[], Awaitable[object]]
    read_log: Callable[[], str]
