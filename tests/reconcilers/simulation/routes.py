"""Ways to whole servers in memory that a seed decides about, request by request."""

from typing import Any

from controller.testing import HeldRequest, HeldRequests
from tests.reconcilers.server import Server


class Route(HeldRequests):
    """A server behind a network that a seed decides about."""

    def __init__(self, server: Server, packets: list[HeldRequest], to: str = "") -> None:
        super().__init__(server, packets, to)
        self.server = server

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the server that a replica in memory reads at its start."""
        return getattr(self.server, name)


def arrive(packet: HeldRequest, *, lost: bool = False, mute: bool = False) -> None:
    """Let the server see a request unless it is lost; the sender hears of it unless mute."""
    if not lost:
        packet.run()
    packet.land(lost=mute)
