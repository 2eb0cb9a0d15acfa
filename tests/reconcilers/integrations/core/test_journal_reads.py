"""A pass decodes the journal of its pool once."""

import sys

import pytest

from controller.meta import Object
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.statusjournal import StatusJournal
from reconcilers.promises.journal import AnnotatedJournal, Journal
from tests.reconcilers.simulation.claimscenes import ClaimStage
from tests.reconcilers.simulation.kkpscenes import KkpStage
from tests.reconcilers.simulation.networkscenes import NetworkStage
from tests.reconcilers.simulation.stage import Stage, play_scene


@pytest.mark.parametrize("kind", [ClaimStage, KkpStage, NetworkStage])
def test_a_pass_reads_the_annotation_of_its_pool_once(
    kind: type[Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = AnnotatedJournal.read

    def note_read(self: AnnotatedJournal, pool: Object) -> Journal:
        """Read the journal; note its number of promises if the pass asked, not the simulation."""
        journal = read(self, pool)
        if sys._getframe(1).f_globals["__name__"].startswith("reconcilers."):
            reads.append(len(journal.promises))
        return journal

    async def scene(stage: Stage) -> None:
        replica = stage.start_replica()
        await stage.reconcile_pool(replica)
        replica.catch_up()
        for name in "abc":  # the first pass may only write a new journal
            stage.create_request(name)
            replica.catch_up()
            reads.clear()
            with monkeypatch.context() as patched:
                patched.setattr(AnnotatedJournal, "read", note_read)
                await stage.reconcile_pool(replica)
            replica.catch_up()
            assert len(reads) == 1, (name, reads)
        assert reads[0], "the journal had promises"

    play_scene(scene, kind)


def test_a_pass_reads_the_status_of_its_networkpool_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[int] = []
    read = StatusJournal.read

    def note_read(self: StatusJournal, pool: NetworkPool) -> Journal:
        """Read the journal; note its number of promises unless `is_stored` asked."""
        journal = read(self, pool)
        if sys._getframe(1).f_code.co_name != "is_stored":
            reads.append(len(journal.promises))
        return journal

    async def scene(stage: Stage) -> None:
        replica = stage.start_replica()
        for name in "ab":
            stage.create_request(name)
            replica.catch_up()
            reads.clear()
            with monkeypatch.context() as patched:
                patched.setattr(StatusJournal, "read", note_read)
                await stage.reconcile_pool(replica)
            replica.catch_up()
            assert len(reads) == 1, (name, reads)
        assert reads[0], "the journal had promises"

    play_scene(scene, Stage)
