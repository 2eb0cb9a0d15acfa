"""Clients of tenants, kept while they work.

A tenant is not trusted, so its answers are bounded in size and time. A client is kept until a
request through it fails in a way that new credentials or a new address could mend; then the Secret
is read again. So a rotation is met without asking for the Secret while all is well. A tenant that
does not answer is tried less and less often.

Which cluster a client leads to is read once, when it is made. A guard may refuse it then: nothing
is done in a cluster that is not the TenantCluster's own.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from controller.client import Client
from controller.clock import Clock
from controller.discovery import AbsenceCounter
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
from reconcilers.clusteraccess.clusteridentity import AdmitAll, ClusterIdentity, TenantGuard
from reconcilers.clusteraccess.tenantaccess import (
    Silence,
    TenantAccess,
    TenantAccesses,
    TenantConnection,
)
from reconcilers.clusteraccess.tenantfailures import (
    UNAUTHORIZED,
    UNREACHABLE,
    WEBHOOK_FAILED,
    TenantUnavailable,
    failed_webhook,
    lasting_words,
)
from reconcilers.clusteraccess.tenantkubeconfigs import (
    OpenTransport,
    read_kubeconfig,
    strict_opener,
)
from reconcilers.configuration.settings import TenantSettings

FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0
MOST_RETRIES = 2
"""How many tenants that did not answer last time are tried at once."""


class TenantClients:
    """Clients of tenants, kept while they work.

    Args:
        management: where the Secrets are.
        settings: what a kubeconfig may do, and the bounds of a tenant's answers.
        clock: the time, for the pauses between tries of a tenant that does not answer.
        accesses: what is remembered of each tenant.
        open_transport: makes a connection of a kubeconfig; strict by default.
        guard: decides whether a cluster may be used; by default all may.
    """

    def __init__(
        self,
        management: Client,
        settings: TenantSettings,
        clock: Clock,
        accesses: TenantAccesses,
        open_transport: OpenTransport | None = None,
        guard: TenantGuard | None = None,
    ) -> None:
        self._management = management
        self._guard = guard or AdmitAll()
        self._clock = clock
        self._open = open_transport or strict_opener(settings)
        self._max_list_bytes = settings.answer_limit
        self._accesses = accesses
        self._retries = 0

    @asynccontextmanager
    async def client(
        self, tenant: TenantCluster, *, guarded: bool = True
    ) -> AsyncIterator[Client]:
        """Yield a client of `tenant` for the context, to one caller at a time.

        So a range is never taken for free because a tenant has no pool, while another caller is
        between confirming that range and creating the pool.

        If what is done with it fails so that another address or other credentials could help, the
        client is closed once no caller uses it, and the Secret is read again next time. A tenant
        that does not answer is not tried for a while, longer each time.

        Args:
            guarded: whether the guard has to admit the cluster; if not, only read by the client.

        Raises:
            TenantUnavailable: there is no kubeconfig, none that may be used, or no answer; it does
                not lead to a cluster of the tenant's own; or what was done in the context was
                refused.
            Conflict: what was done in the context met another version.
            ControllerError: the management cluster did not answer.
        """
        access = self._accesses.access_to(tenant)
        await self.management()
        with self._limit_tries(access):
            connection = await self._connect(tenant, access)
            connection.users += 1
            try:
                async with connection.lock:
                    self._raise_if_paused(access)
                    if guarded:
                        await self._admit(tenant, access, connection)
                    yield connection.client
                    access.silence = None
            except (TenantUnavailable, Conflict):
                raise
            except ControllerError as error:
                raise self._failure(access, connection, error) from error
            finally:
                connection.users -= 1
                if access.is_forgotten:
                    self._retire(access, connection)
                await self._close_if_done(connection)

    async def _admit(
        self, tenant: TenantCluster, access: TenantAccess, connection: TenantConnection
    ) -> None:
        """Ask the guard about the cluster that a connection leads to."""
        identity = await connection.identity.read()
        access.is_refused = True
        await self._guard.admit(tenant, identity, connection.client)
        access.is_refused = False

    async def management(self) -> str:
        """Return the identity of the management cluster; empty if it is not known.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        return await self._guard.management()

    def is_refused(self, tenant: TenantCluster) -> bool:
        """Return whether a tenant's kubeconfig led to a cluster that it may not use."""
        return self._accesses.access_to(tenant).is_refused

    def identity(self, tenant: TenantCluster) -> str | None:
        """Return the identity of the cluster behind a tenant's client; None if there is no client.

        Empty if the tenant does not let that be read.
        """
        connection = self._accesses.access_to(tenant).connection
        return connection.identity.known if connection is not None else None

    def open(self) -> list[Key]:
        """Return the namespace and name of tenants whose clients are kept."""
        accesses = self._accesses.accesses_by_name()
        return list(dict.fromkeys(key for key, access in accesses if access.connection))

    async def close(self, key: Key) -> None:
        """Close the clients of the tenants of one name, as soon as no caller uses them."""
        for access in list(self._accesses.accesses_of_name(key)):
            access.is_refused, access.silence = False, None
            await self._disconnect(access)

    async def forget(self, access: TenantAccess) -> None:
        """Close the client of a tenant that is gone, and keep none from now on."""
        access.is_forgotten = True
        await self._disconnect(access)

    async def _disconnect(self, access: TenantAccess) -> None:
        connection = access.connection
        if connection is not None:
            self._retire(access, connection)
            await self._close_if_done(connection)

    async def aclose(self) -> None:
        """Close all clients."""
        for key in self.open():
            await self.close(key)

    async def kubeconfig(self, tenant: TenantCluster) -> bytes:
        """Return the tenant's kubeconfig as its Secret has it now.

        Raises:
            TenantUnavailable: there is none; `absent` if live reads showed so.
            ControllerError: the management cluster did not answer.
        """
        return await read_kubeconfig(self._management, tenant)

    async def connect(self, tenant: TenantCluster) -> Transport:
        """Return a separate connection to the tenant, which the caller closes.

        Raises:
            TenantUnavailable: there is no kubeconfig, or none that may be used.
            ControllerError: the management cluster did not answer.
        """
        return self._transport(await self.kubeconfig(tenant))

    def _transport(self, kubeconfig: bytes) -> Transport:
        try:
            return self._open(kubeconfig)
        except ConfigurationError as refused:
            raise TenantUnavailable("KubeconfigRefused", str(refused)) from refused

    @contextmanager
    def _limit_tries(self, access: TenantAccess) -> Iterator[None]:
        """Let only a few be tried at once of the tenants that did not answer last time.

        Each may take as long as a request may; were many tried, no worker would be left for the
        tenants that do answer. The others count as unreachable until one of the tries is over.
        """
        silence = access.silence
        if silence is None:
            yield
            return
        self._raise_if_paused(access)
        if self._retries >= MOST_RETRIES:
            raise silence.error
        self._retries += 1
        try:
            yield
        finally:
            self._retries -= 1

    async def _connect(self, tenant: TenantCluster, access: TenantAccess) -> TenantConnection:
        """Return the connection to a tenant; open it if there is none.

        The connections to earlier clusters of this name are closed then.
        """
        self._raise_if_paused(access)
        if known := self._connection(access):
            return known
        for earlier in list(self._accesses.accesses_of_name(tenant.metadata.key)):
            if earlier is not access:
                await self._disconnect(earlier)
        kubeconfig = await self.kubeconfig(tenant)
        if opened := self._connection(access):
            return opened  # by another pass, meanwhile
        transport = self._transport(kubeconfig)
        manager = names.TENANT_FIELD_MANAGER
        client = Client(
            transport,
            field_manager=manager,
            max_list_bytes=self._max_list_bytes,
            absence_counter=AbsenceCounter(self._clock),
        )
        identity = ClusterIdentity(client, self._clock)
        access.connection = TenantConnection(transport, client, identity)
        return access.connection

    @staticmethod
    def _connection(access: TenantAccess) -> TenantConnection | None:
        return access.connection

    def _raise_if_paused(self, access: TenantAccess) -> None:
        if access.silence is not None and self._clock.monotonic() < access.silence.until:
            raise access.silence.error

    def _failure(
        self, access: TenantAccess, connection: TenantConnection, error: ControllerError
    ) -> TenantUnavailable:
        """Note a tenant's failure, and return the exception that callers handle."""
        webhook = failed_webhook(error)
        if webhook:
            # It answers, so it is not paused: the webhook is back as soon as its pod is.
            access.silence = None
            return TenantUnavailable(WEBHOOK_FAILED, f"{webhook} in the tenant does not answer")
        reason = "TenantRefused"
        if isinstance(error, NoAnswer | MalformedAnswer | ServerFailure | TooManyRequests):
            reason = UNREACHABLE
            self._pause(access, error)
        elif isinstance(error, Unauthorized):
            reason = UNAUTHORIZED
        if isinstance(error, NoAnswer | MalformedAnswer | Unauthorized):
            self._retire(access, connection)
        return TenantUnavailable(reason, lasting_words(error))

    @staticmethod
    def _retire(access: TenantAccess, connection: TenantConnection) -> None:
        connection.retired = True
        if access.connection is connection:
            access.connection = None

    def _pause(self, access: TenantAccess, error: ControllerError) -> None:
        failures = access.silence.failures + 1 if access.silence is not None else 1
        pause = min(FIRST_PAUSE * 2 ** min(failures - 1, 10), LONGEST_PAUSE)
        until = self._clock.monotonic() + pause
        why = lasting_words(error)
        access.silence = Silence(failures, until, why=why, at=self._clock.now())

    async def _close_if_done(self, connection: TenantConnection) -> None:
        if connection.retired and connection.users == 0:
            with anyio.CancelScope(shield=True):
                await connection.transport.aclose()
