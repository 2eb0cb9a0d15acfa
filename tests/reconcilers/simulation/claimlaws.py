"""What must hold of every write about claims of Cluster API, and in the end."""

from collections.abc import Callable, Container, Iterable, Iterator

import msgspec
from typing_extensions import override

from controller.meta import ObjectMeta
from reconcilers.integrations.clusterapi.api import (
    CLAIM_FINALIZER,
    JOURNALS,
    POOL_FINALIZER,
    IPAddressClaim,
)
from reconcilers.integrations.clusterapi.statuses import record_of
from reconcilers.promises.journal import ANNOTATION, Promise
from tests.reconcilers.simulation.laws import FIRST, SPANS, Judge
from tests.reconcilers.simulation.model import ADDRESSES, CLAIM_POOLS, CLAIMS, Json, ModelServer

Held = Callable[[str], Iterable[str]]


def nothing(pool: str) -> Iterable[str]:
    """Return no addresses: only claims hold addresses of the pool."""
    del pool
    return ()


class ClaimJudge(Judge):
    """Looks at every change of claims and their pools."""

    @override
    def _look(self, plural: str, old: Json | None, new: Json | None) -> None:
        if self.problem is not None or self.paused or old is None or new is None:
            return
        crimes: Iterator[str] = iter(())
        if plural == CLAIMS:
            crimes = self._claim(old, new)
        elif plural == CLAIM_POOLS:
            crimes = self._claim_pool(old, new)
        self.problem = next(crimes, None)

    def _claim(self, old: Json, new: Json) -> Iterator[str]:
        """Judge a claim that came to have an address."""
        name, meta = new["metadata"]["name"], new["metadata"]
        now = address_of(self.model, new)
        if not refers(new) or (refers(old) and address_of(self.model, old) == now):
            return
        if now is None:
            yield f"{name} refers to an IPAddress that is not there"
        for other in self.model.of(CLAIMS):
            if other is not new and now is not None and address_of(self.model, other) == now:
                yield f"{name} and {other['metadata']['name']} both have {now}"
        if CLAIM_FINALIZER not in meta.get("finalizers", ()):
            yield f"{name} came to have {now} without its finalizer"
        if "deletionTimestamp" in meta:
            yield f"{name} came to have {now} while it was being deleted"

    def _claim_pool(self, old: Json, new: Json) -> Iterator[str]:
        """Judge a pool that promised something."""
        meta, before = new["metadata"], promises(old)
        added = [promise for promise in promises(new) if promise not in before]
        if added and "deletionTimestamp" in meta:
            yield f"pool {meta['name']} promised something while it was being deleted"
        if added and POOL_FINALIZER not in meta.get("finalizers", ()):
            yield f"pool {meta['name']} promised something without its finalizer"
        uids = [promise.uid for promise in promises(new)]
        if len(uids) != len(set(uids)):
            yield f"pool {meta['name']} promised two addresses to one claim"


def refers(claim: Json) -> bool:
    """Return whether a claim has an addressRef."""
    return bool((claim.get("status") or {}).get("addressRef"))


def promises(pool: Json) -> tuple[Promise, ...]:
    """Return the promises in a pool's journal."""
    if ANNOTATION not in (pool["metadata"].get("annotations") or {}):
        return ()
    return JOURNALS.read(msgspec.convert(pool["metadata"], ObjectMeta)).promises


def address_of(model: ModelServer, claim: Json) -> str | None:
    """Return the address that a claim's user finds: by its addressRef, else by its record."""
    if not refers(claim):
        return None
    typed = msgspec.convert(claim, IPAddressClaim)
    finalizers = claim["metadata"].get("finalizers", ())
    if "deletionTimestamp" in claim["metadata"] and CLAIM_FINALIZER not in finalizers:
        return None
    found = model.get(ADDRESSES, claim["status"]["addressRef"]["name"])
    if found is not None:
        return str(found["spec"]["address"])
    record = record_of(typed)
    return record.address if record is not None else None


def given_twice(model: ModelServer) -> str | None:
    """Return which two claims have one address, None if no two have."""
    seen: dict[str, str] = {}
    for claim in model.of(CLAIMS):
        address, name = address_of(model, claim), claim["metadata"]["name"]
        if address is not None:
            if address in seen:
                return f"{seen[address]} and {name} both have {address}"
            seen[address] = name
    return None


def left_undone(
    model: ModelServer,
    pools: str = CLAIM_POOLS,
    held: Held = nothing,
    stopped: Container[str] = (),
) -> str | None:
    """Return what should have been served or released by now, None if nothing should.

    Args:
        model: the objects.
        pools: the plural of the pools.
        held: returns the addresses of a pool that others than claims hold.
        stopped: the names of claims about which nothing is to be done unless they are deleted.
    """
    used: dict[str, set[str]] = {name: {*held(name)} for name in SPANS}
    serving = {
        name
        for name in SPANS
        if (pool := model.get(pools, name)) and "deletionTimestamp" not in pool["metadata"]
    }
    for address in model.of(ADDRESSES):
        name = address["metadata"]["name"]
        claim = model.get(CLAIMS, name)
        if claim is None:
            return f"IPAddress {name} is left of a claim that is gone"
        used[address["spec"]["poolRef"]["name"]].add(address["spec"]["address"])
        if claim["spec"]["poolRef"]["name"] not in serving or name in stopped:
            continue
        if address_of(model, claim) != address["spec"]["address"]:
            return f"IPAddress {name} serves no claim: {claim.get('status')}"
    for claim in model.of(CLAIMS):
        name, pool = claim["metadata"]["name"], claim["spec"]["poolRef"]["name"]
        if "deletionTimestamp" in claim["metadata"]:
            return f"{name} is deleted and still there"
        if pool not in serving or name in stopped:
            continue
        if refers(claim) and model.get(ADDRESSES, name) is None:
            return f"{name} refers to an IPAddress that is not there"
        first, last = SPANS[pool]
        everything = {f"{FIRST}{number}" for number in range(first, last + 1)}
        if not refers(claim) and everything - used[pool]:
            return f"{name} waits although there is {everything - used[pool]}: {claim}"
    return None
