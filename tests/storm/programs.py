"""A program of a storm, as it is struck and started again."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A program that runs.

    Args:
        pid: of its process.
        wait: waits until it has ended.
        read_log: returns its log so far.
    """

    pid: int
    wait: Callable[[], Awaitable[object]]
    read_log: Callable[[], str]
