"""The laws that every write must keep, and those for the end of a run.

The judge sees each write as the server stores it. These laws hold for all kinds of pools; an
adapter adds the laws of its kind.
"""

from collections.abc import Iterable, Iterator

from tests.reconcilers.simulation.adapter import (
    Adapter,
    Address,
    Promise,
    join_addresses,
    sort_addresses,
)
from tests.reconcilers.simulation.model import Json


class Judge:
    """Judges every change of the objects; `problem` is the first violation.

    Args:
        adapter: the kind of the pools.
    """

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.model = adapter.model
        self.problem: str | None = None
        self.paused = False
        """Whether what happens now is done by people, who may do anything."""
        self.model.witness = self._judge_change

    def _judge_change(self, plural: str, old: Json | None, new: Json | None) -> None:
        """Judge a change, unless people made it or a violation is known."""
        self.adapter.note_change(plural, old, new)
        if self.problem is None and not self.paused:
            self.problem = next(self._find_violations(plural, old, new), None)

    def _find_violations(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        """Yield the violations by a change of an object; `old` or `new` is None if absent."""
        if plural in self.adapter.requests and new is not None:
            yield from self._judge_request(plural, old, new)
        if plural == self.adapter.pools and old is not None and new is not None:
            yield from self._judge_pool(old, new)
        yield from self.adapter.find_violations(plural, old, new)

    def _judge_request(self, plural: str, old: Json | None, new: Json) -> Iterator[str]:
        """Yield the violations of a request that gained or lost addresses."""
        name, meta = self.adapter.describe_request(new), new["metadata"]
        before = self.adapter.list_shown(old) if old is not None else frozenset()
        now = self.adapter.list_shown(new)
        lost, gained = before - now, now - before
        if lost and not self.adapter.is_released(plural, old or {}, new):
            addresses_now = join_addresses(now) or "nothing"
            yield f"{name} had {join_addresses(before)}, and has {addresses_now} now"
        if not gained:
            return
        yield from (clash for clash in self._find_clashes(new, gained))
        if not gained <= self.adapter.list_offered(new):
            yield f"{name} got {join_addresses(gained)}, which its pool does not hand out"
        finalizer = self.adapter.finalizers.get(plural)
        if finalizer is not None and finalizer not in meta.get("finalizers", ()):
            yield f"{name} came to have {join_addresses(gained)} without its finalizer"
        if "deletionTimestamp" in meta:
            yield f"{name} came to have {join_addresses(gained)} while it was being deleted"

    def _find_clashes(self, request: Json, gained: frozenset[Address]) -> Iterator[str]:
        """Yield the other requests that show an address that a request has just gained."""
        for plural in self.adapter.requests:
            for other in self.model.list_objects(plural):
                both = gained & self.adapter.list_shown(other)
                if other is not request and both:
                    yield _describe_clash(self.adapter, request, second=other, both=both)

    def _judge_pool(self, old: Json, new: Json) -> Iterator[str]:
        """Yield the violations of a pool whose journal has new promises."""
        name, meta = new["metadata"]["name"], new["metadata"]
        before, now = [*self.adapter.read_promises(old)], [*self.adapter.read_promises(new)]
        added = [promise for promise in now if promise not in before]
        if added and "deletionTimestamp" in meta:
            yield f"pool {name} promised something while it was being deleted"
        finalizer = self.adapter.finalizers.get(self.adapter.pools)
        if added and finalizer is not None and finalizer not in meta.get("finalizers", ()):
            yield f"pool {name} promised something without its finalizer"
        uids = [promise.uid for promise in now]
        if len(uids) != len(set(uids)):
            yield f"pool {name} made two promises to one request"
        for promise in added:
            yield from self._judge_promise(promise, now)

    def _judge_promise(self, added: Promise, promises: Iterable[Promise]) -> Iterator[str]:
        """Yield the requests that show, or are promised, an address of a new promise."""
        requests = {
            request["metadata"]["uid"]: request
            for plural in self.adapter.requests
            for request in self.model.list_objects(plural)
        }

        def is_open(promise: Promise) -> bool:
            request = requests.get(promise.uid)
            return bool(request and request["metadata"]["resourceVersion"] == promise.version)

        if not is_open(added):
            return
        name = f"the promise to {self.adapter.describe_request(requests[added.uid])}"
        for promise in promises:
            both = promise.addresses & added.addresses
            if both and promise.uid != added.uid and is_open(promise):
                other = self.adapter.describe_request(requests[promise.uid])
                yield f"{name} and that to {other} both have {join_addresses(both)}"
        for uid, request in requests.items():
            both = added.addresses & self.adapter.list_shown(request)
            if both and uid != added.uid:
                other = self.adapter.describe_request(request)
                yield f"{name} and {other} both have {join_addresses(both)}"


def find_double_holders(adapter: Adapter) -> str | None:
    """Return the first two requests that show one address, None if no two do."""
    holder_by_address: dict[Address, Json] = {}
    for plural in adapter.requests:
        for request in adapter.model.list_objects(plural):
            for address in sort_addresses(adapter.list_shown(request)):
                if address in holder_by_address:
                    return _describe_clash(
                        adapter,
                        holder_by_address[address],
                        second=request,
                        both=frozenset({address}),
                    )
                holder_by_address[address] = request
    return None


def _describe_clash(adapter: Adapter, first: Json, second: Json, both: frozenset[Address]) -> str:
    """Return the verdict that two requests have the same addresses."""
    names = sorted(map(adapter.describe_request, (first, second)))
    return f"{' and '.join(names)} both have {join_addresses(both)}"


def describe_unserved(adapter: Adapter) -> str | None:
    """Return a request that should be served or released by now; None if there is none."""
    taken_addresses = adapter.list_taken()
    for name, needs in adapter.list_unserved():
        if all(need.can_be_met(taken_addresses) for need in needs):
            return f"{name} waits although it fits"
    return adapter.find_unfinished_work()
