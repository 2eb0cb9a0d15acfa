"""The way into a tenant: its kubeconfig from a Secret, and a client over it.

A tenant is not trusted. Its kubeconfig is read by a strict loader, its answers are bounded in
size and time. A client is kept until a request through it fails in a way that new credentials or
a new address could mend; then the Secret is read again. So a rotation is met without asking for
the Secret while all is well.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio

from controller.client import Client
from controller.clock import Clock
from controller.errors import (
    ConfigurationError,
    Conflict,
    ControllerError,
    MalformedAnswer,
    NoAnswer,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
)
from controller.meta import Key
from controller.transport import Transport
from reconcilers.api import names
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.settings import TenantSettings
from reconcilers.tenantcluster.kubeconfigs import (
    NoWayIn,
    OpenTransport,
    read_kubeconfig,
    strictly,
)

UNAUTHORIZED = "Unauthorized"
"""The reason when a tenant does not take our credentials: they may have been rotated."""
FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0
MOST_SUSPECTS = 2
"""How many tenants that did not answer last time are tried at once."""


@dataclass(slots=True)
class _Way:
    """A client that is kept, and how many use it or wait to."""

    key: Key
    uid: str
    transport: Transport
    client: Client
    users: int = 0
    retired: bool = False
    turn: anyio.Lock = field(default_factory=anyio.Lock)


@dataclass(frozen=True, slots=True)
class _Silence:
    """A tenant that did not answer: how often in a row, until when it is left in peace, why."""

    failures: int
    until: float
    why: str


class Tenants:
    """Clients for tenants, kept while they work.

    Args:
        management: where the Secrets are.
        settings: what a kubeconfig may do, and the bounds of a tenant's answers.
        clock: for the pauses between tries of a tenant that does not answer.
        open_transport: makes a connection of a kubeconfig; strict by default.
    """

    def __init__(
        self,
        management: Client,
        settings: TenantSettings,
        clock: Clock,
        open_transport: OpenTransport | None = None,
    ) -> None:
        self._management = management
        self._clock = clock
        self._open = open_transport or strictly(settings)
        self._ways: dict[Key, _Way] = {}
        self._silent: dict[Key, _Silence] = {}
        self._suspects = 0

    @asynccontextmanager
    async def inside(self, tenant: TenantCluster) -> AsyncIterator[Client]:
        """Give a client for `tenant` while the context lasts; to one at a time.

        So nobody finds a tenant without a pool, and takes a range for free, while somebody else is
        between confirming that range and creating the pool.

        If what is done with it fails so that another address or other credentials could help, the
        client is closed once nobody uses it, and the Secret is read again next time. A tenant that
        is out of order is left in peace for a while, longer each time.

        Raises:
            NoWayIn: there is no kubeconfig, none that may be used, no answer, or what was done in
                the context was refused.
            Conflict: what was done in the context met another version.
            ControllerError: the management cluster did not answer.
        """
        key = tenant.metadata.key
        with self._bounded(key):
            way = await self._enter(tenant)
            way.users += 1
            try:
                async with way.turn:
                    self._respect_silence(key)
                    yield way.client
                    self._silent.pop(key, None)
            except (NoWayIn, Conflict):
                raise
            except ControllerError as error:
                raise self._turned_away(way, error) from error
            finally:
                way.users -= 1
                await self._close_if_done(way)

    async def leave(self, key: Key) -> None:
        """Close the client of a tenant that went, as soon as nobody uses it."""
        self._silent.pop(key, None)
        way = self._ways.get(key)
        if way is not None:
            self._retire(way)
            await self._close_if_done(way)

    async def aclose(self) -> None:
        """Close all clients."""
        for key in list(self._ways):
            await self.leave(key)

    async def kubeconfig(self, tenant: TenantCluster) -> bytes:
        """Return the tenant's kubeconfig as its Secret has it now.

        Raises:
            NoWayIn: there is none; `absent` if live reads showed so.
            ControllerError: the management cluster did not answer.
        """
        return await read_kubeconfig(self._management, tenant)

    async def open(self, tenant: TenantCluster) -> Transport:
        """Return a connection of its own to the tenant, which the caller closes.

        Raises:
            NoWayIn: there is no kubeconfig, or none that may be used.
            ControllerError: the management cluster did not answer.
        """
        return self._transport(await self.kubeconfig(tenant))

    def _transport(self, kubeconfig: bytes) -> Transport:
        try:
            return self._open(kubeconfig)
        except ConfigurationError as refused:
            raise NoWayIn("KubeconfigRefused", str(refused)) from refused

    @contextmanager
    def _bounded(self, key: Key) -> Iterator[None]:
        """Let only a few be tried at once of those that did not answer last time.

        Each may take as long as a request may; were many tried, there would be nobody left to
        work on the tenants that do answer. Who finds no place is as silent as before, until then.
        """
        silence = self._silent.get(key)
        if silence is None:
            yield
            return
        self._respect_silence(key)
        if self._suspects >= MOST_SUSPECTS:
            raise NoWayIn("TenantUnreachable", silence.why)
        self._suspects += 1
        try:
            yield
        finally:
            self._suspects -= 1

    async def _enter(self, tenant: TenantCluster) -> _Way:
        key = tenant.metadata.key
        self._respect_silence(key)
        known = self._ways.get(key)
        if known is not None and known.uid != tenant.metadata.uid:
            await self.leave(key)  # it led into an earlier cluster of this name
        elif known is not None:
            return known
        kubeconfig = await self.kubeconfig(tenant)
        known = self._ways.get(key)
        if known is not None:
            return known  # another pass was quicker
        transport = self._transport(kubeconfig)
        client = Client(transport, field_manager=names.TENANT_FIELD_MANAGER)
        way = _Way(key, tenant.metadata.uid, transport, client)
        self._ways[key] = way
        return way

    def _respect_silence(self, key: Key) -> None:
        silence = self._silent.get(key)
        if silence is not None and self._clock.monotonic() < silence.until:
            raise NoWayIn("TenantUnreachable", silence.why)

    def _turned_away(self, way: _Way, error: ControllerError) -> NoWayIn:
        """Draw the conclusions from a tenant's failure, and return it as what callers handle."""
        reason = "TenantRefused"
        if isinstance(error, NoAnswer | MalformedAnswer | ServerFailure | TooManyRequests):
            reason = "TenantUnreachable"
            self._hush(way.key, error)
        elif isinstance(error, Unauthorized):
            reason = UNAUTHORIZED
        if isinstance(error, NoAnswer | MalformedAnswer | Unauthorized):
            self._retire(way)
        return NoWayIn(reason, f"{type(error).__name__}: {error}")

    def _retire(self, way: _Way) -> None:
        way.retired = True
        if self._ways.get(way.key) is way:
            del self._ways[way.key]

    def _hush(self, key: Key, error: ControllerError) -> None:
        before = self._silent.get(key)
        failures = before.failures + 1 if before else 1
        pause = min(FIRST_PAUSE * 2 ** min(failures - 1, 10), LONGEST_PAUSE)
        why = f"{type(error).__name__}: {error}"
        self._silent[key] = _Silence(failures, self._clock.monotonic() + pause, why)

    async def _close_if_done(self, way: _Way) -> None:
        if way.retired and way.users == 0:
            with anyio.CancelScope(shield=True):
                await way.transport.aclose()
