"""Scenes of metal3's pools.

Each scene returns the violation, None if there is none. Its docstring tells the course of events.
"""

from typing import Any, ClassVar

from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.ippools import IPPools
from tests.reconcilers.simulation.model import METAL3_CLAIMS, METAL3_POOLS
from tests.reconcilers.simulation.stage import Stage


class IPPoolStage(Stage):
    """A model with IPPool p of three addresses and its journal, and no working replica yet."""

    kind: ClassVar[type[Adapter]] = IPPools
    begins_newest: ClassVar[bool] = True
    """Whether a process begins with the newest lists, and not with those of a watch cache."""

    def start_process(self, past: int) -> Any:
        """Return a replica of a new process.

        Args:
            past: the revision of the server's watch cache, which lags.
        """
        replica = self.start_replica()
        if not self.begins_newest:
            replica.list_past(past)
        return replica


async def promised_address_given_elsewhere(stage: IPPoolStage) -> str | None:
    """The integration is off: metal3's controller gives `b` the address that was promised to `a`.

    Then the integration is switched on again, and its processes find the open promise.
    """
    stage.create_request("a")
    await stage.reconcile_pool(stage.start_replica(), stage.match_grants_to("a"))
    stage.create_request("b")
    # The judge of our writes does not apply to those of metal3's controller.
    was_paused, stage.judge.paused = stage.judge.paused, True
    [promise] = stage.adapter.read_promises(stage.model.objects[METAL3_POOLS, "p"])
    stage.adapter.serve_by_metal3(METAL3_CLAIMS, "b", choice=promise.addresses)
    stage.judge.paused = was_paused
    await stage.serve_requests(stage.start_replica())
    stage.run_late_requests()
    return stage.problem


async def address_given_elsewhere_before_the_first_list(stage: IPPoolStage) -> str | None:
    """While the integration is off, metal3's controller serves b; then our process serves c."""
    stage.create_request("a")
    await stage.drop_settled(stage.start_replica())
    stage.create_request("c")
    past = stage.model.revision
    stage.create_request("b")
    # The judge of our writes does not apply to those of metal3's controller.
    was_paused, stage.judge.paused = stage.judge.paused, True
    stage.adapter.serve_by_metal3(METAL3_CLAIMS, "b")
    stage.judge.paused = was_paused
    process = stage.start_process(past)
    for _ in range(3):  # its caches lag as the lists did
        await stage.reconcile_pool(process)
    return stage.problem
