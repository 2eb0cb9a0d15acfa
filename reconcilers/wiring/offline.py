"""The controllers without tenants, for `plan`, which runs them on an API server in memory.

They are the controllers of `run`. The collector of orphans is left out, because the owners of
allocations need not be among the planned objects. Gauges, webhooks and events are left out, too.
No range is released, because no tenant can be asked.
"""

from dataclasses import replace
from typing import Any

from typing_extensions import override

from controller.clock import Clock
from controller.events import Recorder
from controller.manager import Manager
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.configuration.settings import Settings
from reconcilers.ipallocation.release import InUse, ReleaseCheck
from reconcilers.wiring.assembling import add_controllers
from reconcilers.wiring.shared import Shared

NOT_ASKED = "a plan asks no tenant whether a range is in use"


class KeptRanges(ReleaseCheck):
    """Releases no range."""

    @override
    async def check(self, allocation: IPAllocation, mark: int) -> InUse:
        """Report every range as in use."""
        return InUse(NOT_ASKED)


class SilentRecorder(Recorder):
    """Records no event."""

    @override
    def record(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


def assemble_offline(manager: Manager, clock: Clock, settings: Settings) -> None:
    """Add the controllers to `manager`; they record no events and release no range.

    Args:
        manager: runs them.
        clock: their time.
        settings: their intervals and thresholds.
    """
    shared = Shared.from_manager(manager, clock, settings)
    recorder = SilentRecorder(shared.client, clock, names.COMPONENT)
    add_controllers(replace(shared, recorder=recorder), release=KeptRanges())
