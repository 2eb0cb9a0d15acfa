"""Ways to whole servers in memory that a seed decides about, request by request."""

from typing import Any

from controller.testing import HeldRequest, HeldRequests
from tests.reconcilers.server import Server


class Route(HeldRequests):
    """A server behind a network: a seed decides when requests arrive."""

    def __init__(self, server: Server, packets: list[HeldRequest], to: str = "") -> None:
        super().__init__(server, packets, to)
        self.server = server

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the server that a replica in memory reads at its start."""
        return getattr(self.server, name)


def deliver(packet: HeldRequest, *, lost: bool = False, mute: bool = False) -> None:
    """Run a request at the server, and answer its sender.

    Args:
        lost: whether the request never reaches the server.
        mute: whether the answer never reaches the sender.
    """
    if not lost:
        packet.run()
    packet.land(lost=mute)
