"""A pool that serves requests of several kinds: each kind is fenced and written by itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from typing_extensions import override

from controller.cache import Cache
from controller.errors import ApiError
from controller.meta import Key
from controller.outcome import SETTLED, Again, Outcome
from controller.resource import Resource
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.clusterapi.api import IPAddressClaim, get_claim_kind
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.promises.annotationwrites import ANNOTATION_WRITES
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.keeping import Granted, Kept
from reconcilers.promises.passes import (
    NO_FENCED_REQUESTS,
    Allotment,
    JournalWrites,
    PassWork,
    PoolKind,
    PoolPasses,
    PoolWrite,
    next_after_quiet_period,
)
from reconcilers.promises.requestkinds import Fenced, RequestKind, ServedRequests
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits, Shares, TenantOf, no_tenant
from reconcilers.promises.unreadable import UnreadableHoldings
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

Request = IPAllocation | IPAddressClaim
CLAIM_KIND: Resource[Any] = get_claim_kind("v1beta1")
RANGE, OTHER = ("10.40.0.0", "10.40.0.0"), ("10.40.0.9", "10.40.0.9")


class Requests(RequestKind[NetworkPool, Any, str]):
    """Requests of one kind, each of which is at the version that its promise names.

    Args:
        resource: the kind.
        calls: receives each call of a pass: its name, the kind, and an argument.
    """

    def __init__(self, resource: Resource[Any], calls: list[tuple[str, str, Any]]) -> None:
        self._resource = resource
        self._calls = calls
        self.served_requests = ServedRequests(self)
        self.seen: str | None = None
        """What a fence returns as seen."""

    @property
    @override
    def request_resource(self) -> Resource[Any]:
        return self._resource

    def _record_call(self, call: str, argument: Any) -> None:
        self._calls.append((call, self._resource.full_name, argument))

    @override
    def needs_fence(
        self, pool: NetworkPool, journal: Journal, reading: str, limits: Limits
    ) -> bool:
        return self._resource.full_name not in journal.revisions

    @override
    async def void_earlier(self, pool: NetworkPool, reading: str) -> Fenced:
        self._record_call("void", pool.metadata.resourceVersion)
        return Fenced({self._resource.full_name: 77}, self.seen)

    @override
    def find_request(self, reading: str, promise: Promise) -> Any:
        return promise.key.name

    @override
    def is_request_paused(self, pool: NetworkPool, request: Any) -> bool:
        return False

    @override
    async def keep(
        self, pool: NetworkPool, reading: str, granted: Sequence[Granted[Any]]
    ) -> list[Kept[Any]]:
        self._record_call("keep", [request for _, request in granted])
        return [Kept(promise, request, WriteResult.WRITTEN) for promise, request in granted]

    @override
    async def void_refused(
        self, pool: NetworkPool, refused: Sequence[Kept[Any]]
    ) -> Sequence[WriteResult]:
        raise AssertionError("no write is refused")


class Writes(JournalWrites[NetworkPool, Any, str, None]):
    """The writes of passes besides the journal; waits are reported as for an annotation."""

    block_not_stored = staticmethod(ANNOTATION_WRITES.block_not_stored)
    get_shown_wait = staticmethod(ANNOTATION_WRITES.get_shown_wait)
    report_wait = staticmethod(ANNOTATION_WRITES.report_wait)

    def __init__(self) -> None:
        self.pool_write = PoolWrite()
        """The write that `describe_write` returns."""
        self.written: list[tuple[int, int]] = []
        """The pool's allocationCount before and after each write."""

    @override
    def describe_write(
        self, pool: NetworkPool, reading: str, choice: Allotment[Any, None]
    ) -> PoolWrite:
        return self.pool_write

    @override
    def note_written(self, before: NetworkPool, after: NetworkPool) -> None:
        self.written.append((before.status.allocationCount, after.status.allocationCount))


class Pools(PoolKind[NetworkPool, Any, str, None]):
    """NetworkPools whose passes keep open promises and make no new ones."""

    journals = STATUS_JOURNALS

    def __init__(
        self,
        pools: Cache[NetworkPool],
        kinds: Sequence[Requests],
        calls: list[tuple[str, str, Any]],
    ) -> None:
        self._pools = pools
        self._kinds = kinds
        self._calls = calls
        self.writes = Writes()
        self.chosen_by: list[str] = []
        """The reading that was passed to `choose`, for each pass."""

    @property
    @override
    def pools(self) -> Cache[NetworkPool]:
        return self._pools

    @property
    @override
    def journal_writes(self) -> Writes:
        return self.writes

    @property
    @override
    def is_history_confirmed(self) -> bool:
        return True

    @override
    def is_left_alone(self, pool: NetworkPool) -> bool:
        return False

    @override
    def forget_lists(self) -> None:
        return

    @override
    def forget(self, pool: Key) -> None:
        return

    @override
    async def prepare(self, pool: NetworkPool) -> tuple[NetworkPool, Outcome | None]:
        return pool, None

    @override
    def request_kinds(self, pool: NetworkPool) -> Sequence[ServedRequests[NetworkPool, Any, str]]:
        return [kind.served_requests for kind in self._kinds]

    @override
    def tenants(self, reading: str) -> TenantOf:
        return no_tenant

    @override
    async def read(
        self,
        pool: NetworkPool,
        journal: Journal,
        fenced_requests: Mapping[str, Any] = NO_FENCED_REQUESTS,
    ) -> str:
        self._calls.append(("read", "", pool.metadata.resourceVersion))
        return f"read, {len(fenced_requests)} seen by fences"

    @override
    def choose(
        self, pool: NetworkPool, journal: Journal, reading: str, limits: Limits
    ) -> Allotment[Any, None]:
        self.chosen_by.append(reading)
        return Allotment(journal, (), more=False, detail=None)

    @override
    async def confirm(
        self,
        pool: NetworkPool,
        journal: Journal,
        reading: str,
        choice: Allotment[Any, None],
        limits: Limits,
    ) -> tuple[str, Allotment[Any, None]]:
        return reading, choice

    @override
    async def finish(
        self,
        pool: NetworkPool,
        reading: str,
        choice: Allotment[Any, None],
        kept: Sequence[Kept[Any]],
        shares: Shares,
    ) -> float | None:
        return None

    @override
    def next_pass(self, run_passes: PassWork[NetworkPool, Any, None]) -> Outcome:
        return next_after_quiet_period(run_passes)

    @override
    async def report_unreadable(
        self, pool: NetworkPool, unreadable: UnreadableHoldings
    ) -> float | None:
        raise AssertionError("all is readable")

    @override
    async def report_pool_refused(self, pool: NetworkPool, error: ApiError) -> None:
        raise AssertionError("no write is refused")


class ServedPool:
    """One NetworkPool, and passes over it.

    Args:
        revisions: the revisions of the pool's journal. The journal has a promise to allocation `a`
            and one to claim `c`.
        kinds: the kinds of requests that are served.
    """

    def __init__(
        self,
        revisions: Mapping[str, str],
        kinds: Sequence[Resource[Any]] = (IP_ALLOCATION, CLAIM_KIND),
    ) -> None:
        self.lab = Lab()
        self.calls: list[tuple[str, str, Any]] = []
        to_allocation = make.render_promise(make.promise(make.allocation("a"), *RANGE))
        to_claim = make.render_claim_promise(*OTHER, name="c")
        status = {"assignments": [to_allocation, to_claim], "revisions": dict(revisions)}
        self.lab.server.add("networkpools", make.pool(status=status))
        self.kinds = [Requests(resource, self.calls) for resource in kinds]
        self.pools = Pools(self.lab.caches["networkpools"], self.kinds, self.calls)
        replica = self.lab
        self.passes = PoolPasses(
            self.pools, replica.client, clock=replica.clock, settings=PoolSettings()
        )

    async def run_passes(self) -> dict[str, Any]:
        """Run passes until another replica's promises are written; return the pool's status."""
        for _ in range(2):
            await self.passes.reconcile(make.key("lab"))
            await self.lab.clock.advance(3)
        return self.lab.read_status("networkpools", "lab")

    def list_kinds(self, call: str) -> list[str]:
        """Return the kinds for which passes made the call of this name, in order."""
        return [kind for name, kind, _ in self.calls if name == call]

    def list_kept(self, kind: str) -> list[Any]:
        """Return the requests of a kind that promises were written to."""
        return [
            request
            for name, of_kind, requests in self.calls
            if (name, of_kind) == ("keep", kind)
            for request in requests
        ]


async def test_only_the_kind_without_a_revision_in_the_journal_is_fenced() -> None:
    served_pool = ServedPool({KIND: "7"})
    status = await served_pool.run_passes()
    assert served_pool.list_kinds("void") == [make.CLAIMS]
    assert status["revisions"] == {KIND: "7", make.CLAIMS: "77"}
    assert [entry["name"] for entry in status["assignments"]] == ["a"]


async def test_the_second_fence_starts_from_the_pool_that_the_first_fence_has_written() -> None:
    served_pool = ServedPool({})
    status = await served_pool.run_passes()
    assert served_pool.list_kinds("void") == [KIND, make.CLAIMS]
    first, second = (version for call, _, version in served_pool.calls if call == "void")
    assert int(first) < int(second)
    assert status["revisions"] == {KIND: "77", make.CLAIMS: "77"}
    assert status["assignments"] == []


async def test_promises_are_written_by_the_kind_that_they_name() -> None:
    served_pool = ServedPool({KIND: "7", make.CLAIMS: "7"})
    await served_pool.run_passes()
    assert (set(served_pool.list_kept(KIND)), set(served_pool.list_kept(make.CLAIMS))) == (
        {"a"},
        {"c"},
    )


async def test_a_promise_to_a_kind_that_is_not_served_stays_open_and_is_not_written() -> None:
    served_pool = ServedPool({make.CLAIMS: "7"}, kinds=[IP_ALLOCATION])
    status = await served_pool.run_passes()
    assert served_pool.list_kept(KIND) == []
    assert [entry["kind"] for entry in status["assignments"]] == [make.CLAIMS]
    assert status["revisions"][make.CLAIMS] == "7"


async def test_a_promise_to_a_kind_that_is_not_served_calls_for_no_pass() -> None:
    served_pool = ServedPool({KIND: "7", make.CLAIMS: "7"}, kinds=[])
    for _ in range(2):
        assert await served_pool.passes.reconcile(make.key("lab")) == SETTLED
        await served_pool.lab.clock.advance(10)


@pytest.mark.parametrize("revisions", [{KIND: "7"}, {}])
async def test_a_pass_reads_again_after_fences_and_gets_what_each_fence_saw(
    revisions: Mapping[str, str],
) -> None:
    served_pool = ServedPool(revisions)
    for kind in served_pool.kinds:
        kind.seen = "seen by the fence"
    await served_pool.passes.reconcile(make.key("lab"))
    assert served_pool.list_kinds("read") == ["", ""]
    assert served_pool.pools.chosen_by == [f"read, {2 - len(revisions)} seen by fences"]


async def test_nothing_is_chosen_if_the_kinds_that_are_served_change_during_the_pass() -> None:
    served_pool = ServedPool({KIND: "7"})
    both_kinds = [kind.served_requests for kind in served_pool.kinds]
    answers = iter([both_kinds[:1], both_kinds])
    served_pool.pools.request_kinds = lambda pool: next(answers)  # type: ignore[method-assign]
    outcome = await served_pool.passes.reconcile(make.key("lab"))
    assert isinstance(outcome, Again)
    assert served_pool.pools.chosen_by == []


async def test_status_fields_of_a_kind_are_written_together_with_the_journal() -> None:
    served_pool = ServedPool({KIND: "7", make.CLAIMS: "7"})
    served_pool.pools.writes.pool_write = PoolWrite(
        {"status": {"allocationCount": 3}}, is_due=True
    )
    await served_pool.passes.reconcile(make.key("lab"))
    (written,) = [
        request for request in served_pool.lab.server.requests if request.verb == "patch"
    ]
    assert written.body is not None
    assert written.body["status"]["allocationCount"] == 3
    assert [entry["name"] for entry in written.body["status"]["assignments"]] == ["a", "c"]
    assert served_pool.pools.writes.written == [(0, 3)]


async def test_a_write_that_is_not_due_is_left_out() -> None:
    served_pool = ServedPool({KIND: "7", make.CLAIMS: "7"})
    served_pool.pools.writes.pool_write = PoolWrite({"status": {"allocationCount": 3}})
    await served_pool.passes.reconcile(make.key("lab"))
    assert not [request for request in served_pool.lab.server.requests if request.verb == "patch"]


async def test_nothing_is_read_for_one_resync_after_a_journal_that_was_not_stored() -> None:
    served_pool = ServedPool({})
    served_pool.lab.server.unknown = frozenset({"revisions", "assignments", "journalOf"})
    outcomes = []
    for _ in range(2):
        outcomes.append(await served_pool.passes.reconcile(make.key("lab")))
        await served_pool.lab.clock.advance(10)
    assert outcomes == [Again(60.0), Again(50.0)]
    assert served_pool.list_kinds("read") == [""]
    assert len(served_pool.list_kinds("void")) == 1
