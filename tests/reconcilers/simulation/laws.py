"""What must hold of every single write, and in the end; judged by the server as it stores.

These laws are those of all kinds of pools. An adapter adds the laws of its kind alone.
"""

from collections.abc import Iterable, Iterator

from tests.reconcilers.simulation.adapter import Adapter, Address, Promise, in_order, texts
from tests.reconcilers.simulation.model import Json


class Judge:
    """Looks at every change of the objects, and remembers the first that must not be.

    Args:
        adapter: the kind of the pools.
    """

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.model = adapter.model
        self.problem: str | None = None
        self.paused = False
        """Whether what happens now is done by people, who may do anything."""
        self.model.witness = self._look

    def _look(self, plural: str, old: Json | None, new: Json | None) -> None:
        self.adapter.note_change(plural, old, new)
        if self.problem is None and not self.paused:
            self.problem = next(self._crimes(plural, old, new), None)

    def _crimes(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if plural in self.adapter.requests and new is not None:
            yield from self._judge_request(plural, old, new)
        if plural == self.adapter.pools and old is not None and new is not None:
            yield from self._judge_pool(old, new)
        yield from self.adapter.crimes(plural, old, new)

    def _judge_request(self, plural: str, old: Json | None, new: Json) -> Iterator[str]:
        """Judge a request that came to show addresses, or shows some no longer."""
        name, meta = self.adapter.full_name(new), new["metadata"]
        before = self.adapter.addresses(old) if old is not None else frozenset()
        now = self.adapter.addresses(new)
        lost, gained = before - now, now - before
        if lost and not self.adapter.is_released(plural, old or {}, new):
            yield f"{name} had {texts(before)}, and has {texts(now) or 'nothing'} now"
        if not gained:
            return
        yield from (clash for clash in self._clashes(new, gained))
        if not gained <= self.adapter.list_offered(new):
            yield f"{name} got {texts(gained)}, which its pool does not hand out"
        finalizer = self.adapter.finalizers.get(plural)
        if finalizer is not None and finalizer not in meta.get("finalizers", ()):
            yield f"{name} came to have {texts(gained)} without its finalizer"
        if "deletionTimestamp" in meta:
            yield f"{name} came to have {texts(gained)} while it was being deleted"

    def _clashes(self, request: Json, gained: frozenset[Address]) -> Iterator[str]:
        """Yield the other requests that show an address that a request has come to show."""
        for plural in self.adapter.requests:
            for other in self.model.of(plural):
                both = gained & self.adapter.addresses(other)
                if other is not request and both:
                    yield _both_have(self.adapter, request, second=other, both=both)

    def _judge_pool(self, old: Json, new: Json) -> Iterator[str]:
        """Judge a pool that promised something."""
        name, meta = new["metadata"]["name"], new["metadata"]
        before, now = [*self.adapter.promises(old)], [*self.adapter.promises(new)]
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
        """Judge a new promise: no other request shows, or may still get, its addresses."""
        requests = {
            request["metadata"]["uid"]: request
            for plural in self.adapter.requests
            for request in self.model.of(plural)
        }

        def is_open(promise: Promise) -> bool:
            request = requests.get(promise.uid)
            return bool(request and request["metadata"]["resourceVersion"] == promise.version)

        if not is_open(added):
            return
        name = f"the promise to {self.adapter.full_name(requests[added.uid])}"
        for promise in promises:
            both = promise.addresses & added.addresses
            if both and promise.uid != added.uid and is_open(promise):
                other = self.adapter.full_name(requests[promise.uid])
                yield f"{name} and that to {other} both have {texts(both)}"
        for uid, request in requests.items():
            both = added.addresses & self.adapter.addresses(request)
            if both and uid != added.uid:
                yield f"{name} and {self.adapter.full_name(request)} both have {texts(both)}"


def given_twice(adapter: Adapter) -> str | None:
    """Return the first two requests that show one address, None if no two do."""
    holder_by_address: dict[Address, Json] = {}
    for plural in adapter.requests:
        for request in adapter.model.of(plural):
            for address in in_order(adapter.addresses(request)):
                if address in holder_by_address:
                    return _both_have(
                        adapter,
                        holder_by_address[address],
                        second=request,
                        both=frozenset({address}),
                    )
                holder_by_address[address] = request
    return None


def _both_have(adapter: Adapter, first: Json, second: Json, both: frozenset[Address]) -> str:
    names = sorted(map(adapter.full_name, (first, second)))
    return f"{' and '.join(names)} both have {texts(both)}"


def describe_unserved(adapter: Adapter) -> str | None:
    """Return the request that should be served or released by now, None if there is none."""
    taken_addresses = adapter.list_taken()
    for name, needs in adapter.waiting():
        if all(need.fits(taken_addresses) for need in needs):
            return f"{name} waits although it fits"
    return adapter.undone()
