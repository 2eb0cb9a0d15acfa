"""Scenes of metal3's pools."""

from typing import Any, ClassVar

from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.ippools import IPPools
from tests.reconcilers.simulation.model import METAL3_CLAIMS, METAL3_POOLS
from tests.reconcilers.simulation.stage import Stage


class IPPoolStage(Stage):
    """A model with IPPool p of three addresses, its memory, and no replica at work yet."""

    kind: ClassVar[type[Adapter]] = IPPools
    begins_newest: ClassVar[bool] = True
    """Whether a process begins with the newest lists, and not with those of a watch cache."""

    def begin_process(self, past: int) -> Any:
        """Return a replica of a process that has just begun.

        Args:
            past: the revision of the server's watch cache, which lags.
        """
        replica = self.replica()
        if not self.begins_newest:
            replica.list_past(past)
        return replica


async def promised_address_given_elsewhere(stage: IPPoolStage) -> str | None:
    """A promise to a is open as the integration goes; metal3's controller gives its address to b.

    Then the integration is switched on again, and its processes find the promise.
    """
    stage.ask("a")
    await stage.pool(stage.replica(), stage.gives_to("a"))
    stage.ask("b")
    was_paused, stage.judge.paused = stage.judge.paused, True
    [promise] = stage.adapter.promises(stage.model.objects[METAL3_POOLS, "p"])
    stage.adapter.serve_elsewhere(METAL3_CLAIMS, "b", choice=promise.addresses)
    stage.judge.paused = was_paused
    await stage.serve(stage.replica())
    stage.arrive()
    return stage.problem


async def address_given_elsewhere_before_the_first_list(stage: IPPoolStage) -> str | None:
    """While the integration is off, metal3's controller serves b; then c is served by us."""
    stage.ask("a")
    await stage.drop_settled(stage.replica())
    stage.ask("c")
    past = stage.model.revision
    stage.ask("b")
    was_paused, stage.judge.paused = stage.judge.paused, True
    stage.adapter.serve_elsewhere(METAL3_CLAIMS, "b")
    stage.judge.paused = was_paused
    process = stage.begin_process(past)
    for _ in range(3):  # its caches lag as the lists did
        await stage.pool(process)
    return stage.problem
