"""Which requests that wait may be promised something, in which order: for pools of all kinds."""

from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from typing_extensions import override

from controller.meta import Object
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Find, Holder
from reconcilers.promises.journal import Promise
from reconcilers.promises.shares import Eligibility, TenantOf, Verdict

RequestT = TypeVar("RequestT", bound=Object)
Request_co = TypeVar("Request_co", bound=Object, covariant=True)


class ReadPool(Protocol[Request_co]):
    """The requests of a pool and its holdings, as they were read."""

    @property
    def holdings(self) -> Holdings:
        """What is held, and which askers wait."""
        ...

    @property
    def find(self) -> Find[Request_co]:
        """Returns the request of a holder."""
        ...


class Waiting(Iterator[tuple[Holder, RequestT]], Generic[RequestT]):
    """The requests that wait without an open promise, with their holders, the oldest first.

    Args:
        view: the requests of the pool.
        promises: the open promises.
    """

    def __init__(self, view: ReadPool[RequestT], promises: Iterable[Promise]) -> None:
        self.turns = view.holdings.turns()
        self._find = view.find
        self._promised = {promise.uid for promise in promises}

    @override
    def __next__(self) -> tuple[Holder, RequestT]:
        """Return the next one."""
        for _, holder in self.turns:
            request = self._find(holder)
            if request is not None and request.metadata.uid not in self._promised:
                return holder, request
        raise StopIteration

    def eligible(
        self, eligibility: Eligibility, tenant_of: TenantOf
    ) -> Iterator[tuple[Holder, RequestT]]:
        """Yield the rest of them that may get a promise.

        Args:
            eligibility: which requests may get one.
            tenant_of: returns the tenant of a request.
        """
        for holder, request in self:
            verdict = eligibility.judge(request.metadata, tenant_of(holder))
            if verdict is Verdict.TENANT_WAITS:
                self.turns.leave_out_tenant()
            if verdict is Verdict.ELIGIBLE:
                yield holder, request
