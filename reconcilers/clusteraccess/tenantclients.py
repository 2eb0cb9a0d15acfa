"""Clients of tenants, kept while they work.

A tenant is not trusted, so its answers are bounded in size and time. A client is kept until a
request fails in a way that new credentials or a new address could repair; then the Secret is read
again. So rotated credentials are picked up, and the Secret is not read for each request. A tenant
that does not answer is retried less and less often.

The identity of a client's cluster is read once. By this identity, a *guard* decides whether the
client may be used: nothing is written to a cluster that is not the TenantCluster's own.
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
    describe_without_port,
    find_failed_webhook,
)
from reconcilers.clusteraccess.tenantkubeconfigs import (
    OpenTransport,
    make_strict_opener,
    read_kubeconfig,
)
from reconcilers.configuration.settings import TenantSettings

FIRST_PAUSE = 5.0
"""Seconds without requests after a tenant did not answer once; doubled with each failure."""
LONGEST_PAUSE = 300.0
"""The longest pause in seconds."""
MOST_RETRIES = 2
"""The most tenants that are retried at the same time after they did not answer."""


class TenantClients:
    """Clients of tenants, kept while they work.

    Args:
        management: a client of the management cluster, which has the kubeconfig Secrets.
        settings: what a kubeconfig may contain, and the bounds of a tenant's answers.
        clock: the time, for the pauses after a tenant did not answer.
        accesses: what is remembered of each tenant.
        open_transport: makes a connection from a kubeconfig; by default the strict loader.
        guard: decides whether a cluster may be used; by default every cluster may.
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
        self._open = open_transport or make_strict_opener(settings)
        self._max_list_bytes = settings.answer_limit
        self._accesses = accesses
        self._retries = 0

    @asynccontextmanager
    async def open_client(
        self, tenant: TenantCluster, *, guarded: bool = True
    ) -> AsyncIterator[Client]:
        """Yield a client of `tenant` for the context, to one caller at a time.

        Two callers at once could contradict each other. One finds no pool in the tenant, and takes
        a range for free. The other has confirmed that range, and is about to create the pool.

        If a request in the context fails, another address or other credentials may help. Then the
        client is closed once no caller uses it, and the Secret is read again next time. A tenant
        that does not answer is paused, longer each time.

        Args:
            guarded: whether the guard has to admit the cluster. Without it, the caller must only
                read.

        Raises:
            TenantUnavailable: there is no usable kubeconfig; the tenant is paused, does not
                answer, or rejects a request of the context; or the guard refuses its cluster.
            Conflict: a write in the context met another version.
            ControllerError: the management cluster did not answer.
        """
        access = self._accesses.get_access(tenant)
        # The guard reads this identity again, from memory. If it were read there first, an error
        # of the management cluster would count as a failure of the tenant.
        await self.read_management_identity()
        with self._limit_tries(access):
            connection = await self._connect(tenant, access)
            connection.users += 1
            try:
                async with connection.lock:
                    # While this caller waited for the lock, another may have had no answer.
                    self._raise_if_paused(access)
                    if guarded:
                        await self._admit(tenant, access, connection)
                    yield connection.client
                    access.silence = None
            except (TenantUnavailable, Conflict):
                # A pause, a refusal of the guard, or an answer that the caller handles: these are
                # no failures of the connection.
                raise
            except ControllerError as error:
                raise self._record_failure(access, connection, error) from error
            finally:
                connection.users -= 1
                if access.is_forgotten:
                    self._retire(access, connection)
                await self._close_if_unused(connection)

    async def _admit(
        self, tenant: TenantCluster, access: TenantAccess, connection: TenantConnection
    ) -> None:
        """Ask the guard about the cluster of a connection; note the answer on the access.

        Raises:
            TenantUnavailable: the guard refuses the cluster.
        """
        identity = await connection.identity.read()
        access.is_refused = True  # stays True if the guard raises
        await self._guard.admit(tenant, identity, connection.client)
        access.is_refused = False

    async def read_management_identity(self) -> str:
        """Return the identity of the management cluster; empty if it is not known.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        return await self._guard.read_management_identity()

    def is_refused(self, tenant: TenantCluster) -> bool:
        """Return whether the guard refused the tenant's cluster at the last use of a client."""
        return self._accesses.get_access(tenant).is_refused

    def find_identity(self, tenant: TenantCluster) -> str | None:
        """Return the identity of the cluster behind a tenant's client.

        None if no client is kept, or the identity was not read yet; empty if the tenant does not
        allow to read it.
        """
        connection = self._accesses.get_access(tenant).connection
        return connection.identity.known if connection is not None else None

    def list_open(self) -> list[Key]:
        """Return namespace and name of each TenantCluster for which a client is kept."""
        accesses = self._accesses.list_accesses()
        return list(dict.fromkeys(key for key, access in accesses if access.connection))

    async def close_clients(self, key: Key) -> None:
        """Close the clients of all TenantClusters, present and deleted, with a namespace and name.

        A client is closed as soon as no caller uses it. The next use reads the Secret again, even
        if the tenant did not answer, or the guard refused its cluster.
        """
        for access in list(self._accesses.find_accesses_by_name(key)):
            access.is_refused, access.silence = False, None
            await self._disconnect(access)

    async def forget(self, access: TenantAccess) -> None:
        """Close the client of a tenant that is gone.

        A client that is opened later is closed after its use.
        """
        access.is_forgotten = True
        await self._disconnect(access)

    async def _disconnect(self, access: TenantAccess) -> None:
        """Retire the connection of a tenant, and close it once no caller uses it.

        Do nothing if there is no connection.
        """
        connection = access.connection
        if connection is not None:
            self._retire(access, connection)
            await self._close_if_unused(connection)

    async def aclose(self) -> None:
        """Close all clients."""
        for key in self.list_open():
            await self.close_clients(key)

    async def read_kubeconfig(self, tenant: TenantCluster) -> bytes:
        """Return the tenant's kubeconfig from its Secret, read live.

        Raises:
            TenantUnavailable: there is no Secret (with `absent`), or the Secret is unusable.
            ControllerError: the management cluster did not answer.
        """
        return await read_kubeconfig(self._management, tenant)

    async def open_connection(self, tenant: TenantCluster) -> Transport:
        """Return a separate connection to the tenant, which the caller closes.

        Raises:
            TenantUnavailable: there is no usable kubeconfig.
            ControllerError: the management cluster did not answer.
        """
        return self._open_transport(await self.read_kubeconfig(tenant))

    def _open_transport(self, kubeconfig: bytes) -> Transport:
        """Return a connection by a kubeconfig; raise TenantUnavailable if it is unsafe."""
        try:
            return self._open(kubeconfig)
        except ConfigurationError as error:
            raise TenantUnavailable("KubeconfigRefused", str(error)) from error

    @contextmanager
    def _limit_tries(self, access: TenantAccess) -> Iterator[None]:
        """Limit how many tenants are retried at the same time after they did not answer.

        A retry may take as long as the timeout of a request. Many at once would leave no worker
        for the tenants that answer. While MOST_RETRIES run, further silent tenants count as
        unreachable.

        Raises:
            TenantUnavailable: the tenant is paused, or MOST_RETRIES retries are running.
        """
        silence = access.silence
        if silence is None:
            yield  # the tenant answered last time, so this is no retry
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
        """Return the connection to a tenant; open one if there is none.

        Opening one closes the connections to earlier clusters of the same name.

        Raises:
            TenantUnavailable: the tenant is paused, or has no usable kubeconfig.
            ControllerError: the management cluster did not answer.
        """
        self._raise_if_paused(access)
        if connection := self._get_connection(access):
            return connection
        for earlier in list(self._accesses.find_accesses_by_name(tenant.metadata.key)):
            if earlier is not access:
                await self._disconnect(earlier)
        kubeconfig = await self.read_kubeconfig(tenant)
        if connection := self._get_connection(access):
            return connection  # another caller opened it while the Secret was read
        transport = self._open_transport(kubeconfig)
        client = Client(
            transport,
            field_manager=names.TENANT_FIELD_MANAGER,
            max_list_bytes=self._max_list_bytes,
            absence_counter=AbsenceCounter(self._clock),
        )
        identity = ClusterIdentity(client, self._clock)
        access.connection = TenantConnection(transport, client, identity)
        return access.connection

    @staticmethod
    def _get_connection(access: TenantAccess) -> TenantConnection | None:
        """Return the connection of an access.

        A method, and not the attribute: a type checker that has seen the attribute as None would
        take it for None after an `await`, too, although another caller may have set it.
        """
        return access.connection

    def _raise_if_paused(self, access: TenantAccess) -> None:
        """Raise TenantUnavailable during the pause after a tenant did not answer."""
        if access.silence is not None and self._clock.monotonic() < access.silence.until:
            raise access.silence.error

    def _record_failure(
        self, access: TenantAccess, connection: TenantConnection, error: ControllerError
    ) -> TenantUnavailable:
        """Note a tenant's failure, and return the exception that callers handle.

        1. A webhook in the tenant failed: no pause.
        2. The tenant did not answer usably: pause it.
        3. It rejected our credentials (Unauthorized), or the request (TenantRefused): no pause.

        A changed address or changed credentials may be the reason for no answer, for a malformed
        answer, and for Unauthorized. Then the connection is retired, and the Secret is read again.
        """
        webhook = find_failed_webhook(error)
        if webhook:
            # No pause: the API server answers, and the webhook works again once its pod runs.
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
        return TenantUnavailable(reason, describe_without_port(error))

    @staticmethod
    def _retire(access: TenantAccess, connection: TenantConnection) -> None:
        """Mark a connection as retired: new callers open another one."""
        connection.retired = True
        if access.connection is connection:  # not if a caller has already opened another one
            access.connection = None

    def _pause(self, access: TenantAccess, error: ControllerError) -> None:
        """Begin a pause of a tenant: twice as long as the last one, at most LONGEST_PAUSE."""
        failures = access.silence.failures + 1 if access.silence is not None else 1
        # The exponent is limited, because the power would grow without end.
        pause = min(FIRST_PAUSE * 2 ** min(failures - 1, 10), LONGEST_PAUSE)
        until = self._clock.monotonic() + pause
        why = describe_without_port(error)
        access.silence = Silence(failures, until, why=why, at=self._clock.now())

    async def _close_if_unused(self, connection: TenantConnection) -> None:
        """Close a connection if it is retired and no caller uses it."""
        if connection.retired and connection.users == 0:
            # The last caller may be cancelled; without the shield, sockets would stay open.
            with anyio.CancelScope(shield=True):
                await connection.transport.aclose()
