"""What the simulations of integrations share: the journal is an annotation of the pool."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, cast

import msgspec
from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from controller.events import Recorder
from controller.meta import Object, ObjectMeta, Version
from controller.resource import Resource
from controller.runner import Reconcile
from reconcilers.api import names
from reconcilers.configuration.settings import PoolSettings
from reconcilers.promises.journal import ANNOTATION, AnnotatedJournal
from tests.clock import VirtualClock
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.model import Json, ModelServer
from tests.reconcilers.simulation.replica import Feed, Passes, Silent
from tests.reconcilers.simulation.wire import Flight, Wire

Harm = Callable[[], object]
Working = Sequence[tuple[Reconcile, Sequence[Feed]]]
"""Reconcilers, each with the feeds of the objects that it works on."""


class JournalReplica(Passes, ABC):
    """A process that believes it leads, and serves an integration; it has read nothing yet.

    Args:
        server: whose objects its caches read.
        flights: where its requests wait until they run.
        clock: the time.
        rnd: decides how far caches read, and what is worked on.
        patience: seconds that promises of other replicas are left to these.
    """

    def __init__(
        self,
        server: ModelServer,
        flights: list[Flight],
        clock: VirtualClock,
        rnd: Random,
        *,
        patience: float,
    ) -> None:
        self._server = server
        self._flights = flights
        self.clock = clock
        self.settings = PoolSettings(foreign_patience=patience)
        self.recorder = cast("Recorder", Silent())
        self._made: list[Feed] = []
        super().__init__(rnd, self._made, self._set_up())

    @abstractmethod
    def _set_up(self) -> Working:
        """Make the caches, their feeds and the reconcilers; return the latter."""

    def _feed(self, plural: str, cache: Cache[Any]) -> Feed:
        """Return the feed of a cache, which reads from now on."""
        feed = Feed(cache, self._server.history[plural], self._server)
        self._made.append(feed)
        return feed

    def _client(self) -> Client:
        """Return a client whose requests fly, and whose answers enter the caches."""
        by_kind = {feed.cache.resource.kind: feed.cache for feed in self._made}

        def answered(resource: Resource[Any], obj: Object) -> None:
            if resource == by_kind[resource.kind].resource:
                by_kind[resource.kind].apply_own_write(obj)

        def deleted(resource: Resource[Any], version: Version) -> None:
            by_kind[resource.kind].mark_deleted(version)

        return Client(
            Wire(self._flights),
            on_object=answered,
            on_deleted=deleted,
            field_manager=names.FIELD_MANAGER,
        )


@dataclass
class JournalRun(Run):
    """One seed of an integration that keeps its journal in the pool, played."""

    pools: ClassVar[str]
    """The plural of the pools: of p, which is harmed, and q."""
    asking: ClassVar[str]
    """The plural of the objects that ask for addresses."""
    results: ClassVar[Sequence[str]]
    """The fields of their status that a reset wipes."""
    replica: ClassVar[type[JournalReplica]]

    @override
    def _replica(self, *, stale: bool) -> Passes:
        made = type(self).replica(
            self.model, self.flights, self.clock, self.random, patience=self.plan.patience
        )
        made.boot(stale=stale)
        return made

    @override
    def _harm(self) -> None:
        found = self._harms().items()
        options = [harm for wanted, harms in found if getattr(self.plan, wanted) for harm in harms]
        if options:
            self.random.choice(options)()

    def _harms(self) -> dict[str, list[Harm]]:
        """Return what may be done to the objects, by the field of Plan that asks for it."""
        return {
            "resets": [self._reset],
            "touches": [self._touch],
            "pool_cycles": [self._cycle_pool, self._force_pool],
            "wipes": [self._wipe],
            "restores": [self._restore],
        }

    def _some(self, plural: str) -> str | None:
        """Return the name of one of the objects of a kind."""
        found = [name for kind, name in sorted(self.model.objects) if kind == plural]
        return self.random.choice(found) if found else None

    @override
    def _reset(self) -> None:
        if name := self._some(self.asking):
            nothing = {"status": dict.fromkeys(self.results)}
            self.model.patch(self.asking, name, nothing, status=True, guarded=False)

    @override
    def _touch(self) -> None:
        if name := self._some(self.asking):
            label = {"metadata": {"labels": {"touched": str(self.model.revision)}}}
            self.model.patch(self.asking, name, label, guarded=False)

    @override
    def _cycle_pool(self) -> None:
        if self.model.get(self.pools, "p"):
            self.model.delete(self.pools, "p")
        else:
            self._make_pool("p")

    @override
    def _force_pool(self) -> None:
        pool: Json = self.model.get(self.pools, "p") or {"metadata": {}}
        journal = (pool["metadata"].get("annotations") or {}).get(ANNOTATION)
        self.model.vanish(self.pools, "p")
        self._make_pool("p")
        if journal and self.random.random() < 0.5:  # as a backup brings it back
            kept = {"metadata": {"annotations": {ANNOTATION: journal}}}
            self.model.patch(self.pools, "p", kept, guarded=False)

    @override
    def _restore(self) -> None:
        """Give the pool the memory of a history that is not ours."""
        pool = self.model.get(self.pools, "p")
        if pool is not None:
            meta = msgspec.convert(pool["metadata"], ObjectMeta)
            journals = AnnotatedJournal("")  # the stored journal does not name the kind
            patch = journals.patch(meta, journals.with_revision(self.model.revision + 100_000))
            self.model.patch(self.pools, "p", dict(patch), guarded=False)

    @override
    def _wipe(self) -> None:
        if self.model.get(self.pools, "p"):
            nothing = {"metadata": {"annotations": {ANNOTATION: None}}}
            self.model.patch(self.pools, "p", nothing, guarded=False)
