"""Leader election as an async context, which holds the lease and releases it at its end.

Both contexts yield a WaitToLead: a function that waits until this process leads.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from controller.jobs import cancel_when
from controller.leases import Elector, LeaderLost
from controller.supervisor import call_guarded

WaitToLead = Callable[[anyio.Event], Awaitable[bool]]
"""Waits until this process leads or the given event is set; returns whether it leads."""


@asynccontextmanager
async def skip_election() -> AsyncIterator[WaitToLead]:
    """Yield a WaitToLead that leads at once, for a process without other replicas."""

    async def wait_to_lead(_stop: anyio.Event) -> bool:
        """Return True at once."""
        return True

    yield wait_to_lead


@asynccontextmanager
async def join_election(
    elector: Elector, report: Callable[[float], None], lost: anyio.Event
) -> AsyncIterator[WaitToLead]:
    """Yield a WaitToLead for the lease of `elector`; hold the lease until the context ends.

    All work of a leader has to run inside the context. When the lease is lost, the context is
    cancelled and raises LeaderLost in an exception group. When it ends in another way, also by
    being cancelled, the lease is released, which takes at most the timeout of one request.

    Args:
        elector: takes part in the election.
        report: called with 1 when this process begins to lead, and with 0 when it stops.
        lost: set as soon as the lease is lost, however long the work takes to end.
    """

    async def hold() -> None:
        """Renew the lease until cancelled; raise LeaderLost if it is lost, for whatever reason."""
        try:
            await call_guarded(elector.hold)
        except Exception as error:
            report(0)
            lost.set()
            if isinstance(error, LeaderLost):
                raise
            raise LeaderLost(f"leader election lost: renewing has failed: {error!r}") from error

    try:
        async with anyio.create_task_group() as group:

            async def wait_to_lead(stop: anyio.Event) -> bool:
                """Wait for the lease or for `stop`; return whether this process leads."""
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(cancel_when, stop, waiting.cancel_scope)
                    await elector.acquire()
                    waiting.cancel_scope.cancel()  # ends the wait for `stop`
                if elector.is_leading:
                    report(1)
                    group.start_soon(hold)
                return elector.is_leading

            yield wait_to_lead
            group.cancel_scope.cancel()  # ends `hold`
    finally:
        report(0)
        with anyio.CancelScope(shield=True):  # so that another replica need not wait for expiry
            await elector.release()


@contextmanager
def unwrap_failure() -> Iterator[None]:
    """Raise LeaderLost or a single failure itself, instead of the exception groups around it.

    Several failures are raised as a group, without the groups of a single entry around it.
    """
    try:
        yield
    except ExceptionGroup as group:
        # LeaderLost comes first: other failures in the group may follow from it.
        failure: Exception = group.subgroup(LeaderLost) or group
        while isinstance(failure, ExceptionGroup) and len(failure.exceptions) == 1:
            failure = failure.exceptions[0]
        if failure is group:
            raise
        raise failure from group
