"""The demo in steps goes on at any key, and leaves the terminal as it was."""

import os
import pty
import sys
import termios
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from reconcilers.cli.demo.command import wait_for_key

LIMIT = 30.0


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yield a function that presses keys on the terminal that standard input is."""
    master, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield master
    os.close(master)


@pytest.mark.parametrize("key", [b"x", b" ", b"\n", b"\x1b[A"], ids=["x", "space", "enter", "up"])
async def test_any_key_is_enough_and_is_taken_whole(keyboard: int, key: bytes) -> None:
    before = termios.tcgetattr(sys.stdin)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_key)
            await waits_for_keys()
            os.write(keyboard, key)
        assert termios.tcgetattr(sys.stdin) == before
        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_key)
            await waits_for_keys()
            os.set_blocking(sys.stdin.fileno(), False)
            with pytest.raises(BlockingIOError):
                os.read(sys.stdin.fileno(), 1)
            group.cancel_scope.cancel()


async def test_the_terminal_is_as_it_was_after_an_interrupt(keyboard: int) -> None:
    del keyboard
    before = termios.tcgetattr(sys.stdin)
    async with anyio.create_task_group() as group:
        group.start_soon(wait_for_key)
        await waits_for_keys()
        group.cancel_scope.cancel()
    assert termios.tcgetattr(sys.stdin) == before


async def waits_for_keys() -> None:
    while termios.tcgetattr(sys.stdin)[3] & termios.ICANON:
        await anyio.lowlevel.checkpoint()
