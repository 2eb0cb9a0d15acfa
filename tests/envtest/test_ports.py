"""Ports are drawn once, however many control planes start at the same time."""

import os
import socket
import time
from pathlib import Path

import pytest
from typing_extensions import override

from envtest.ports import choose_free_port


@pytest.fixture
def same_port(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the system offer these ports, the first one first."""
    offered: list[int] = []

    class Probe(socket.socket):
        @override
        def getsockname(self) -> tuple[str, int]:
            return ("127.0.0.1", offered.pop(0)) if offered else super().getsockname()

    monkeypatch.setattr(socket, "socket", Probe)
    return offered


def test_a_port_that_another_plane_has_just_drawn_is_passed_over(
    tmp_path: Path, same_port: list[int]
) -> None:
    same_port += [4001, 4001, 4001, 4002]

    assert [choose_free_port("127.0.0.1", tmp_path) for _ in range(2)] == [4001, 4002]


def test_a_port_may_be_given_out_again_after_a_while(tmp_path: Path, same_port: list[int]) -> None:
    same_port += [4001, 4001]
    choose_free_port("127.0.0.1", tmp_path)
    long_ago = time.time() - 3600
    os.utime(tmp_path / "4001", (long_ago, long_ago))

    assert choose_free_port("127.0.0.1", tmp_path) == 4001


def test_no_process_listens_on_a_port_that_was_given_out(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", choose_free_port("127.0.0.1", tmp_path)))
        listener.listen()
