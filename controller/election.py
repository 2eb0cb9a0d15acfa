"""Leading as a context: the lease is held inside it and given back when everything has ended."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from controller.jobs import cancel_when
from controller.leases import Elector, LeaderLost

Won = Callable[[anyio.Event], Awaitable[bool]]
"""Wait until we lead, or until the given event: whether we lead."""


@asynccontextmanager
async def unopposed() -> AsyncIterator[Won]:
    """Give a function that says yes at once: nobody else is there."""

    async def won(_giving_up: anyio.Event) -> bool:
        return True

    yield won


@asynccontextmanager
async def contested(
    elector: Elector, report: Callable[[float], None], lost: anyio.Event
) -> AsyncIterator[Won]:
    """Give a function that waits for the lease and has it held until the context ends.

    Everything that may only run while leading has to run inside the context: when the
    lease is lost, what is in it is cancelled, and LeaderLost comes out of it in a group. When it
    ends in another way, even by being cancelled, the lease is released, which takes no longer
    than one request may.

    Args:
        elector: takes part in the election.
        report: told 1 when we begin to lead and 0 when we no longer do.
        lost: set in the moment in which the lease is lost, however long the work takes to end.
    """

    async def hold() -> None:
        try:
            await elector.hold()
        except LeaderLost:
            report(0)
            lost.set()
            raise

    try:
        async with anyio.create_task_group() as group:

            async def won(giving_up: anyio.Event) -> bool:
                async with anyio.create_task_group() as race:
                    race.start_soon(cancel_when, giving_up, race.cancel_scope)
                    await elector.acquire()
                    race.cancel_scope.cancel()
                if elector.leading:
                    report(1)
                    group.start_soon(hold)
                return elector.leading

            yield won
            group.cancel_scope.cancel()
    finally:
        report(0)
        with anyio.CancelScope(shield=True):
            await elector.release()


@contextmanager
def one_failure() -> Iterator[None]:
    """Let a failure out of the groups it comes in: the one there is, or the loss of the lease."""
    try:
        yield
    except ExceptionGroup as group:
        cause = _essence(group)
        if cause is group:
            raise
        raise cause from group


def _essence(group: ExceptionGroup[Exception]) -> Exception:
    lost = group.subgroup(LeaderLost)
    found: Exception = lost or group
    while isinstance(found, ExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found
