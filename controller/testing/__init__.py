"""For unit tests of reconcilers: an API server in memory, and time that the test owns.

    clock = VirtualClock()
    api = FakeApi(clock)
    api.serve(WIDGETS)
    manager = Manager(api, clock=clock)

`FakeApi` is a transport, so the client, the informers and the caches in such a test are the real
ones. `docs/testing.md` lists what it does not do; tests that depend on that need a real server.
"""

from controller.testing.api import FakeApi
from controller.testing.clock import VirtualClock, settle
from controller.testing.faults import Request
from controller.testing.heldrequests import HeldRequest, HeldRequests
from controller.testing.history import WriteRecord

__all__ = [
    "FakeApi",
    "HeldRequest",
    "HeldRequests",
    "Request",
    "VirtualClock",
    "WriteRecord",
    "settle",
]
