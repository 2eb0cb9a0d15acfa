"""Runs an integration for the kinds that the API server serves, and restarts it when these change.

The served kinds are looked up when the process starts and whenever a CustomResourceDefinition of
the integration's groups changes, so that an idle cluster sees no requests. While a kind that the
integration needs is not served, they are also looked up every half minute: kinds of an aggregated
API server have no definition that could change.

Until the first answer it is unknown which addresses objects of these kinds hold. So no address is
handed out that they might hold. While the last look has failed, the process is not ready.

The answer that a kind is absent becomes *stale* once a definition changes or discovery fails:
objects of the kind may be created before the next answer.
"""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, Generic, TypeVar

import anyio

from controller.cache import Change
from controller.client import Client
from controller.clock import Clock
from controller.errors import ControllerError, DiscoveryIncomplete
from controller.health import Check, Failing
from controller.loggers import get_logger
from controller.manager import Manager
from controller.meta import MetadataOnly, Object
from controller.resource import Resource

S = TypeVar("S")
R = TypeVar("R", bound=Object)
Work = Callable[[], Coroutine[Any, Any, None]]

DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    MetadataOnly,
    namespaced=False,
)
SETTLING_SECONDS = 10.0
"""For how many seconds discovery is polled after a definition changed.

Discovery shows a kind only some time after its definition.
"""
POLL_SECONDS = 0.5
"""Seconds between two looks while discovery is polled after such a change."""
RETRY_SECONDS = 2.0
"""Seconds until discovery is tried again after it failed."""
LOOK_AGAIN_SECONDS = 30.0
"""Seconds between two looks while a kind that the integration needs is not served."""

log = get_logger(__name__)


class ServedKindsLook:
    """One look at which kinds are served.

    The client believes that a kind is absent only after several answers in a row. So a look asks
    for all kinds before `check_complete` raises: each look is then an answer for every kind.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._incomplete: DiscoveryIncomplete | None = None

    async def find_first_served(self, versions: Iterable[Resource[R]]) -> Resource[R] | None:
        """Return the first version of a kind that is served.

        Args:
            versions: of one kind, the preferred first.

        Returns:
            None if no version is served, or if that is unknown; `check_complete` tells which.
        """
        for resource in versions:
            try:
                if await self._client.is_served(resource):
                    return resource
            except DiscoveryIncomplete as error:
                self._incomplete = self._incomplete or error
        return None

    def check_complete(self) -> None:
        """Raise DiscoveryIncomplete if it is unknown whether one of the kinds is served."""
        if self._incomplete is not None:
            raise self._incomplete


async def find_served(client: Client, versions: Iterable[Resource[R]]) -> Resource[R] | None:
    """Return the first version of a kind that is served; None if no version is served.

    One served version is_sufficient: it shows the objects of all versions.

    Args:
        versions: of one kind, the preferred first.

    Raises:
        DiscoveryIncomplete: no version is known to be served, and one may be.
        ControllerError: discovery failed.
    """
    look = ServedKindsLook(client)
    first_served = await look.find_first_served(versions)
    if first_served is None:
        look.check_complete()
    return first_served


class Discovery(Generic[S]):
    """Finds out which kinds of an integration are served, and runs its work for them.

    S is the type of an *answer*: the kinds that were served at one look. Each answer is compared
    with the one before it.

    Args:
        manager: watches the definitions.
        groups: the API groups of the kinds.
        find_served: returns the served kinds, by discovery.
        is_sufficient: returns whether all kinds that the integration needs are served.
        on_stale: called when a kind that was absent at the last answer may be served by now. After
            it, `run` restarts the work with the next answer.
    """

    def __init__(
        self,
        manager: Manager,
        groups: Collection[str],
        find_served: Callable[[], Awaitable[S]],
        is_sufficient: Callable[[S], bool],
        on_stale: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._manager = manager
        self._groups = groups
        self._find_served = find_served
        self._is_sufficient = is_sufficient
        self._clock = clock
        self._on_stale = on_stale
        self._is_absent = False
        """Whether the last answer was that a kind which the integration needs is absent."""
        self._is_stale = False
        """Whether that kind may be served by now."""
        self._last_error = ""
        """The error of the last look, after which the served kinds are unknown; empty for none."""
        self._definitions = manager.get_informer(DEFINITIONS)
        self._changed = anyio.Event()
        """Set when a definition of the groups changes."""
        self._poll_until = 0.0
        """The time (monotonic seconds) until which discovery is polled."""

    def make_readiness_check(self, name: str) -> Check:
        """Return a readiness check that fails from an error of discovery until the next answer."""
        problem = "it is not known which kinds are served"
        return Check(
            name, lambda: Failing(problem, self._last_error) if self._last_error else None
        )

    async def run(self, begin: Callable[[S], Work | None]) -> None:
        """Run the work for the served kinds, and restart it for each new answer, until cancelled.

        Args:
            begin: returns the work for the served kinds; None if there is no work for them.
        """
        registration = self._definitions.add_handler(self._note_definition)
        try:
            kinds = await self._ask_until_answered()
            while True:
                kinds = await self._run_until_new_answer(kinds, begin(kinds))
        finally:
            registration.close()

    def _note_definition(self, change: Change[MetadataOnly]) -> None:
        """Poll the served kinds for a while after a definition of these groups changed."""
        definition = change.new or change.old
        # The first list of definitions is no change: the look at the start covers it.
        if definition is None or change.initial:
            return
        # The name of a definition is `plural.group`.
        if definition.metadata.name.partition(".")[2] in self._groups:
            self._poll_until = self._clock.monotonic() + SETTLING_SECONDS
            self._mark_absence_stale()
            self._changed.set()
            # Requests for a kind fail while its definition is replaced; now they may succeed.
            self._manager.retry_informers(definition.metadata.name)

    def _mark_absence_stale(self) -> None:
        """Mark the last answer as stale if a kind that the integration needs was absent in it."""
        if self._is_absent:
            self._is_stale = True
            self._on_stale()

    async def _run_until_new_answer(self, kinds: S, work: Work | None) -> S:
        """Run the work for `kinds` until there is a new answer; return that answer."""
        async with anyio.create_task_group() as group:
            if work is not None:
                group.start_soon(work)
            new_kinds = await self._wait_for_new_answer(kinds)
            group.cancel_scope.cancel()
        return new_kinds

    async def _wait_for_new_answer(self, kinds: S) -> S:
        """Wait until the served kinds differ from `kinds`; return the new answer.

        If the answer `kinds` became stale and the polls confirm it, it is returned as a new
        answer.
        """
        self._is_absent, self._is_stale = not self._is_sufficient(kinds), False
        while True:
            while self._clock.monotonic() < self._poll_until:
                new_kinds = await self._ask_until_answered()
                if new_kinds != kinds:
                    return new_kinds
                await self._clock.sleep(POLL_SECONDS)
            # `on_stale` made the owner forget the last answer, so it needs the answer once more.
            if self._is_stale:
                return kinds
            self._changed = anyio.Event()
            if self._is_sufficient(kinds):
                await self._changed.wait()
                continue
            with self._clock.move_on_after(LOOK_AGAIN_SECONDS) as scope:
                await self._changed.wait()
            if scope.cancelled_caught:
                # Long enough for one look in the loop above.
                self._poll_until = self._clock.monotonic() + POLL_SECONDS

    async def _ask_until_answered(self) -> S:
        """Return the served kinds; ask every RETRY_SECONDS until the API server answers."""
        while True:
            try:
                kinds = await self._find_served()
            except ControllerError as error:
                self._last_error = str(error)
                self._mark_absence_stale()
                log.warning("Cannot find out which kinds are served", error=str(error))
            else:
                self._last_error = ""
                return kinds
            await self._clock.sleep(RETRY_SECONDS)
