"""What claims among manifests would get, without a cluster.

The claims are chosen for by what passes over pools choose with (`choosing.py`), pool by pool, the
oldest claim first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from allocator import AddressRange
from controller.codec import Modified
from controller.conditions import Condition, to_json
from controller.meta import Key
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi.addresses import PoolSpace, blocks_of
from reconcilers.integrations.clusterapi.answers import (
    body_of,
    owners,
    ready_of_refused,
    spec_of,
    why_not,
)
from reconcilers.integrations.clusterapi.api import (
    ADDRESS_ALLOCATED,
    CLAIM_FINALIZER,
    CLAIM_KIND,
    GROUP,
    JOURNALS,
    POOL_NOT_READY,
    AddressSpec,
    ClaimStatus,
    IPAddress,
    IPAddressClaim,
    NameRef,
)
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    Standing,
    kind_of,
    pool_key,
    why_pool_stops,
)
from reconcilers.integrations.clusterapi.claimkind import describe_not_ready
from reconcilers.integrations.clusterapi.claimtaking import ClaimTaker
from reconcilers.integrations.clusterapi.contents import PoolContents, pools_of
from reconcilers.integrations.clusterapi.offers import offers_of
from reconcilers.integrations.clusterapi.pools import unknown
from reconcilers.integrations.clusterapi.poolstatus import counts_of, patch_of, readiness
from reconcilers.integrations.clusterapi.statuses import message_of, record_of
from reconcilers.integrations.core.rules import View
from reconcilers.integrations.core.views import Planned
from reconcilers.promises.choosing import Grant
from reconcilers.promises.identities import find_by_key
from reconcilers.promises.journal import MOST_RANGES, Journal, Promise
from reconcilers.promises.settling import find_promised_version
from reconcilers.promises.unreadable import HOLDERS_UNKNOWN, Unreadable, UnreadableHolders
from reconcilers.reporting.conditions import READY, Finding, with_findings
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules.poolnamespaces import describe_refused_namespace

Held = Callable[[NetworkPool], Sequence[AddressRange]]
"""Returns what IPAllocations hold of a NetworkPool; raises Unreadable if that is unknown."""


@dataclass
class Plan:
    """Serves the claims among manifests.

    Args:
        caches: the objects; what the plan gives is added to it.
        held: what IPAllocations hold of NetworkPools.
        now: the time.
        spaces: what pools of all kinds hand out.
        namespaces: those whose NetworkPools hand out addresses; empty for all.
    """

    caches: ClaimCaches
    held: Held
    now: datetime
    spaces: SpaceIndex
    namespaces: Sequence[str] = ()

    def run(self) -> list[Planned]:
        """Serve all claims; return what became of those that had nothing."""
        promised = list(self._promised())
        waiting = [self._admitted(claim) for claim in self._waiting()]
        for promise, space in promised:
            self._keep(promise, space)
        reasons: dict[Key, Finding] = {}
        for pool in list(pools_of(self.caches)):
            self._serve_pool(pool, reasons)
        return [self._outcome(claim.metadata.key, reasons) for claim in waiting]

    def _waiting(self) -> list[IPAddressClaim]:
        claims = (one for one in self.caches.claims if kind_of(one.spec.poolRef) is not None)
        found = [one for one in claims if record_of(one) is None and not one.metadata.terminating]
        return sorted(found, key=lambda one: one.metadata.revision)

    def _promised(self) -> Iterator[tuple[Promise, PoolSpace]]:
        """Yield the open promises of pools that serve, with what their pools hand out."""
        for pool in pools_of(self.caches):
            if pool.space is None or pool.unreadable or why_pool_stops(pool.pool):
                continue
            for promise in JOURNALS.read(pool.pool).promises:
                claim = find_promised_version(promise, self.caches.claims.get(promise.key))
                if claim is None or self.caches.standing(claim) is not Standing.SERVE:
                    continue
                if self._can_be_kept(promise, claim, pool.space):
                    yield promise, pool.space

    def _can_be_kept(self, promise: Promise, claim: IPAddressClaim, space: PoolSpace) -> bool:
        """Return whether no IPAddress of a claim's name contradicts the promise to the claim."""
        address = self.caches.addresses.get(promise.key)
        if address is None:
            return True
        if why_not(address, claim):
            return False
        [promised] = promise.ranges
        held = space.held(address.spec.address, address.spec.prefix)
        return held == blocks_of(space, promised.range)

    def _keep(self, promise: Promise, space: PoolSpace) -> None:
        """Give a claim what its pool has promised to it."""
        claim = self.caches.claims.get(promise.key)
        assert claim is not None, "nothing deletes claims"
        self._grant(Grant(promise.holder, claim, promise.ranges), space)

    def _admitted(self, claim: IPAddressClaim) -> IPAddressClaim:
        """Return a claim with the finalizer."""
        finalizers = tuple(dict.fromkeys((*claim.metadata.finalizers, CLAIM_FINALIZER)))
        changed = replace(claim.metadata, finalizers=finalizers)
        return self._write(replace(claim, metadata=changed))

    def _write(self, claim: IPAddressClaim) -> IPAddressClaim:
        """Keep a changed claim, at a version above all before."""
        version = str(self.caches.claims.highest_revision + 1)
        meta = replace(claim.metadata, resourceVersion=version)
        written = replace(claim, metadata=meta)
        self.caches.claims.apply(Modified(written))
        return written

    def _serve_pool(self, pool: PoolContents, reasons: dict[Key, Finding]) -> None:
        """Serve the claims of one pool; repeat passes until one grants nothing."""
        if why_pool_stops(pool.pool):
            return
        try:
            if pool.unreadable:
                raise UnreadableHolders(pool.unreadable)
            also_held = self.held(pool.pool) if pool.kind == NETWORK_POOL else ()
        except Unreadable as unreadable:
            self._refuse_all(pool, str(unreadable), reasons)
            return
        closed, journal = "", JOURNALS.read(pool.pool)
        if pool.kind == NETWORK_POOL:
            closed = describe_refused_namespace(pool.pool.metadata.namespace, self.namespaces)
        current: PoolContents | None = pool
        while current is not None and current.space is not None and current.holdings is not None:
            find = find_by_key(CLAIM_KIND, self.caches.claims.get)
            view = View(0, current.holdings, find, self.caches.addresses.get)
            # Manifests have no position: a promise whose claim is absent would never be over.
            still_open = filter(view.at_version, journal.promises)
            taker = ClaimTaker(
                self.caches,
                pool.kind,
                pool.pool,
                Journal(journal.revisions, tuple(still_open)),
                current.space,
                view,
                also_held=also_held,
                closed=closed,
                refuse_each=True,
            )
            choice = taker.choose(MOST_RANGES)
            for refusal in choice.refusals:
                finding = Finding(READY, False, refusal.reason, refusal.message)
                reasons[refusal.asker.metadata.key] = finding
            for grant in choice.grants:
                self._grant(grant, current.space)
            if not choice.grants:
                return
            after_grants = (
                contents for contents in pools_of(self.caches) if contents.pool is pool.pool
            )
            current = next(after_grants, None)

    def _refuse_all(self, pool: PoolContents, why: str, reasons: dict[Key, Finding]) -> None:
        """Note, for each claim of a pool that is not stopped, why the pool serves no claim."""
        message = describe_not_ready(pool.kind, pool.pool, why)
        finding = Finding(READY, False, POOL_NOT_READY, message)
        reasons.update(
            (key, finding)
            for key, claim in pool.claims.items()
            if self.caches.standing(claim) is Standing.SERVE
        )

    def _grant(self, grant: Grant[IPAddressClaim], space: PoolSpace) -> None:
        """Apply a grant to the planned state: the IPAddress, and the claim's status."""
        claim, key = grant.asker, grant.holder.key
        address = self.caches.addresses.get(key)
        if address is None:
            [promised] = grant.addresses
            gateway, start = space.gateway, promised.start_text
            version = str(self.caches.addresses.highest_revision + 1)
            meta = replace(claim.metadata, finalizers=(), annotations={}, resourceVersion=version)
            ref = claim.spec.poolRef
            spec = AddressSpec(NameRef(key.name), ref, start, space.prefix, gateway)
            address = IPAddress(meta, spec)
            self.caches.addresses.apply(Modified(address))
        text = message_of(address.spec.address, address.spec.prefix, claim.spec.poolRef)
        ready = self._conditions(claim, Finding(READY, True, ADDRESS_ALLOCATED, text))
        self._write(replace(claim, status=ClaimStatus(NameRef(key.name), ready)))

    def _conditions(self, claim: IPAddressClaim, finding: Finding) -> tuple[Condition, ...]:
        generation = claim.metadata.generation
        return tuple(with_findings(claim.status.conditions, [finding], generation, self.now))

    def _outcome(self, key: Key, reasons: Mapping[Key, Finding]) -> Planned:
        """Return what a claim gets, or why it gets nothing; write its Ready condition then."""
        claim = self.caches.claims.get(key)
        assert claim is not None, "nothing deletes claims"
        kind = kind_of(claim.spec.poolRef)
        assert kind is not None, "only claims of our kinds are planned"
        name = f"{kind.kind} {pool_key(kind, claim)}"
        planned = partial(Planned, GROUP, "IPAddressClaim", key, name)
        record = record_of(claim)
        if record is not None:
            return planned(f"{record.address}/{record.prefix}", "")
        stopped = self.caches.why_stopped(claim) or "its pool hands out nothing"
        why = self.caches.why_pool_absent(claim) or stopped
        finding = reasons.get(key, Finding(READY, False, POOL_NOT_READY, why))
        shown = ready_of_refused(claim, self.caches, finding.reason, finding.message)
        ready = self._conditions(claim, shown)
        self._write(replace(claim, status=replace(claim.status, conditions=ready)))
        return planned("", f"{finding.reason}: {finding.message}")

    def bodies(
        self, given: Mapping[tuple[str, Key], Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """Return manifests as the plan leaves them, and the IPAddresses that it makes.

        Args:
            given: the manifests by kind and key.
        """
        written = {
            ("IPAddressClaim", one.metadata.key): _status(one)
            for one in self.caches.claims
            if kind_of(one.spec.poolRef) is not None
        }
        written |= self._pool_statuses()
        found: list[Mapping[str, Any]] = []
        for name, body in given.items():
            status = {**(body.get("status") or {}), **written.get(name, {})}
            found.append({**body, "status": status} if status else body)
        made = (
            one for one in self.caches.addresses if ("IPAddress", one.metadata.key) not in given
        )
        return [*found, *(self._body(one) for one in made)]

    def _pool_statuses(self) -> dict[tuple[str, Key], Mapping[str, Any]]:
        """Return the statuses that controllers would write to the pools, by kind and key."""
        return {
            (one.kind.kind, one.pool.metadata.key): self._pool_status(one)
            for one in pools_of(self.caches)
            if one.kind != NETWORK_POOL
        }

    def _pool_status(self, one: PoolContents) -> Mapping[str, Any]:
        pool, counts = one.pool, None
        found = [Finding(READY, False, "ValidationFailed", one.fault)]
        if one.unreadable:
            why = unknown(pool, str(UnreadableHolders(one.unreadable)))
            found = [Finding(READY, False, HOLDERS_UNKNOWN, why)]
        elif one.space is not None and one.holdings is not None:
            counts = counts_of(one.space, one.holdings)
            overlapping = self.spaces.finding(offers_of(one.kind, pool))
            found = [readiness(one.space), *([overlapping] if overlapping is not None else [])]
        return patch_of(pool, counts, found, self.now, conditions=True)

    def _body(self, address: IPAddress) -> Mapping[str, Any]:
        claim = self.caches.claims.get(address.metadata.key)
        kind = kind_of(address.spec.poolRef)
        assert claim is not None, "it was made for it"
        assert kind is not None, "it was made from a pool"
        pool, spec = self.caches.pool_of(claim), address.spec
        said = spec_of(spec.address, spec.prefix, spec.gateway)
        body = body_of(claim, *owners(claim, self.caches.claim_kind, pool, kind), said)
        head = {"apiVersion": self.caches.address_kind.api_version, "kind": "IPAddress"}
        return {**head, **body}


def _status(claim: IPAddressClaim) -> Mapping[str, Any]:
    """Return a claim's status as a server would show it."""
    named = {"addressRef": {"name": claim.address_name}} if claim.address_name else {}
    return {**named, "conditions": [to_json(one) for one in claim.status.conditions]}
