"""The demo in steps continues at any key, and restores the settings of the terminal."""

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
"""Seconds of real time that a test waits for a key to be read."""


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Make standard input a terminal; yield the file descriptor that writes its key presses."""
    master, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield master
    os.close(master)


@pytest.mark.parametrize("key", [b"x", b" ", b"\n", b"\x1b[A"], ids=["x", "space", "enter", "up"])
async def test_any_key_continues_and_all_its_bytes_are_read(keyboard: int, key: bytes) -> None:
    before = termios.tcgetattr(sys.stdin)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_key)
            await wait_until_keys_are_read()
            os.write(keyboard, key)
        assert termios.tcgetattr(sys.stdin) == before
        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_key)
            await wait_until_keys_are_read()
            os.set_blocking(sys.stdin.fileno(), False)
            with pytest.raises(BlockingIOError):
                os.read(sys.stdin.fileno(), 1)
            group.cancel_scope.cancel()


async def test_an_interrupt_restores_the_settings_of_the_terminal(keyboard: int) -> None:
    del keyboard
    before = termios.tcgetattr(sys.stdin)
    async with anyio.create_task_group() as group:
        group.start_soon(wait_for_key)
        await wait_until_keys_are_read()
        group.cancel_scope.cancel()
    assert termios.tcgetattr(sys.stdin) == before


async def wait_until_keys_are_read() -> None:
    """Wait until the terminal has left canonical mode, so that it delivers single keys."""
    local_modes = 3
    """The index of the local modes (c_lflag) in the attributes of a terminal."""
    while termios.tcgetattr(sys.stdin)[local_modes] & termios.ICANON:
        await anyio.lowlevel.checkpoint()
