"""Which ProviderConfig counts for a tenant, and why it may not be used.

The first of these that is set or exists counts, even if it may not be used:

1. the ProviderConfig in the tenant's providerConfigRef
2. the platform's default, from ButlerConfig if that kind is served
3. the ProviderConfig named `default` in the default namespace
4. the first ProviderConfig of the default namespace, by name
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import anyio

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import (
    ApiError,
    DiscoveryIncomplete,
    Forbidden,
    MalformedAnswer,
    NotFound,
)
from controller.meta import Key
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.resources import BUTLER_CONFIG
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.specrules.poolnamespaces import NAMESPACE_NOT_ALLOWED, describe_refused_namespace
from reconcilers.tenantcluster.providerreference import (
    describe_absent,
    find_provider_key,
    parse_reference,
)
from reconcilers.tenantcluster.status import make_network_ready

TEAM = "team"
"""The scope of a provider that serves one team."""
BUTLER_CONFIG_KEY = Key("", "butler")
DEFAULT_SECONDS = 300.0
"""After how many seconds the platform's default is read again."""
UNKNOWN_SECONDS = 10.0
"""After how many seconds the platform's default is read again while it is not known."""


class ProviderUnknown(Exception):
    """It is not known which ProviderConfig counts for a cluster, or what it says.

    The use of another ProviderConfig meanwhile could give the cluster addresses of the wrong
    network for good. The message says what is wrong and what to do. It is the same for each
    replica and each read, so that replicas do not overwrite each other's condition.
    """

    reason: ClassVar[str]
    """The reason in the condition NetworkReady."""
    key: Key | None = None
    """The ProviderConfig that counts; None if that is not known."""


class ProviderProblem(Exception):
    """A cluster cannot request addresses by its ProviderConfig, or has none.

    Args:
        finding: the condition NetworkReady that says why.
        is_known: whether the ProviderConfig that counts is known; if not, it may soon be.
    """

    def __init__(self, finding: ConditionFinding, *, is_known: bool) -> None:
        super().__init__(finding.message)
        self.finding = finding
        self.is_known = is_known


class DefaultUnknown(ProviderUnknown):
    """It is not known which ProviderConfig is the platform's default."""

    reason = "ProviderConfigUnknown"

    def __init__(self, why: str) -> None:
        super().__init__(f"the platform's default ProviderConfig is not known: {why}")


class ProviderUnreadable(ProviderUnknown):
    """The ProviderConfig that counts for a cluster, or may count, cannot be read."""

    reason = "ProviderConfigUnreadable"

    def __init__(self, key: Key) -> None:
        super().__init__(f"ProviderConfig {key} cannot be read; correct or delete it")
        self.key = key


class Providers:
    """Finds the ProviderConfig of tenants.

    Args:
        client: for live reads of the platform's default.
        configs: all ProviderConfigs.
        clock: the time.
        default_namespace: what a reference without a namespace means.
        namespaces: the namespaces whose ProviderConfigs count; empty for all.
    """

    def __init__(
        self,
        client: Client,
        configs: Cache[ProviderConfig],
        clock: Clock,
        default_namespace: str,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._clock = clock
        self._configs = configs
        self._namespace = default_namespace
        self._last_default: _PlatformDefault | None = None
        self._failed_read: _FailedRead | None = None
        self._read_lock = anyio.Lock()

    async def find_for_tenant(self, tenant: TenantCluster) -> ProviderConfig | None:
        """Return the ProviderConfig of `tenant`; None if it is absent, or none counts for it.

        The platform's default is read once, and again every few minutes while a cluster that is
        not Ready needs it. A Ready cluster uses the last read of any age, so at rest no request is
        made. A read without a result is remembered as well, for all clusters.

        Raises:
            ProviderUnknown: the platform's default is not known, or the ProviderConfig cannot be
                read.
            ControllerError: the management cluster did not answer.
        """
        default = None
        if tenant.spec.providerConfigRef is None:
            default = (await self._fetch_default(tenant)).key
        return find_provider(
            tenant, self._configs, default_namespace=self._namespace, platform_default=default
        )

    async def _fetch_default(self, tenant: TenantCluster) -> "_PlatformDefault":
        """Return the platform's default; concurrent callers share one read of it.

        Raises:
            DefaultUnknown: a read within the last UNKNOWN_SECONDS, or this one, did not find it.
            ControllerError: the management cluster did not answer.
        """
        recent_default = self._find_fresh_default(tenant)
        if recent_default is not None:
            return recent_default
        async with self._read_lock:
            # Again, because another pass may have read the default while this one waited.
            recent_default = self._find_fresh_default(tenant)
            if recent_default is not None:
                return recent_default
            try:
                key = await read_platform_default(self._client, self._namespace)
            except DefaultNotRead as error:
                self._failed_read = _FailedRead(str(error), self._clock.monotonic())
                raise DefaultUnknown(str(error)) from error
            self._failed_read = None
            self._last_default = _PlatformDefault(key, self._clock.monotonic())
            return self._last_default

    def _find_fresh_default(self, tenant: TenantCluster) -> "_PlatformDefault | None":
        """Return the platform's default from the last read; None if it has to be read again.

        A cluster that is Ready accepts a read of any age, so that clusters at rest cause no
        requests.

        Raises:
            DefaultUnknown: a read within the last UNKNOWN_SECONDS did not find it.
        """
        default = self._last_default
        failed_read = self._failed_read
        now = self._clock.monotonic()
        if default is not None and (tenant.is_ready or now - default.read_at < DEFAULT_SECONDS):
            return default
        if failed_read is not None and now - failed_read.read_at < UNKNOWN_SECONDS:
            raise DefaultUnknown(failed_read.why)
        return None

    async def require(self, tenant: TenantCluster) -> ProviderConfig:
        """Return the ProviderConfig of `tenant`, of any mode.

        Raises:
            ProviderProblem: no ProviderConfig counts, it is not known, or it may not be used.
            ControllerError: the management cluster did not answer.
        """
        try:
            provider = await self.find_for_tenant(tenant)
        except ProviderUnknown as unknown:
            raise ProviderProblem(describe_unknown(unknown), is_known=False) from unknown
        problem = self.find_obstacle(tenant, provider)
        if problem is not None:
            raise ProviderProblem(problem, is_known=True)
        assert provider is not None, "a missing ProviderConfig is a problem"
        return provider

    def find_obstacle(
        self, tenant: TenantCluster, provider: ProviderConfig | None
    ) -> ConditionFinding | None:
        """Return condition NetworkReady if `tenant` may not use its provider; None if it may.

        Args:
            provider: the result of `find_for_tenant`.
        """
        default = self._last_default.key if self._last_default is not None else None
        key = find_provider_key(tenant, self._namespace, default)
        return find_obstacle(tenant, provider, key=key, namespaces=self._namespaces)


class DefaultNotRead(Exception):
    """A read of ButlerConfig did not tell the platform's default; the message says why.

    Args:
        why: the cause, and what to do.
        is_forbidden: whether ButlerConfigs are served and the client may not read them.
    """

    def __init__(self, why: str, *, is_forbidden: bool = False) -> None:
        super().__init__(why)
        self.is_forbidden = is_forbidden


async def read_platform_default(client: Client, default_namespace: str) -> Key | None:
    """Return the ProviderConfig that ButlerConfig names for clusters that name none.

    Args:
        client: of the management cluster.
        default_namespace: what a reference without a namespace means.

    Returns:
        The key of the ProviderConfig; None if ButlerConfig names none, or there is no such object
        or no such kind.

    Raises:
        DefaultNotRead: the kind is served, or may be, and cannot be read.
        ControllerError: the API server did not answer.
    """
    try:
        config = await client.find(BUTLER_CONFIG, BUTLER_CONFIG_KEY)
    except MalformedAnswer as error:
        raise DefaultNotRead("ButlerConfig butler cannot be read; correct it") from error
    except (NotFound, Forbidden) as error:
        # If the kind is not served, the server answers 404 or 403, depending on our roles.
        await _require_unserved(client, error)
        return None
    reference = config.spec.defaultProviderConfigRef if config is not None else None
    return parse_reference(reference, default_namespace)


async def _require_unserved(client: Client, error: ApiError) -> None:
    """Raise DefaultNotRead if the cluster serves ButlerConfigs, or may serve them.

    Args:
        error: the answer to the read of ButlerConfig.
    """
    try:
        is_served = await client.is_served(BUTLER_CONFIG)
    except DiscoveryIncomplete as incomplete:
        raise DefaultNotRead(f"whether there is a ButlerConfig: {incomplete}") from incomplete
    if is_served and isinstance(error, Forbidden):
        raise DefaultNotRead(
            "ButlerConfig butler may not be read: let a role grant get of"
            f" {BUTLER_CONFIG.full_name}, or name a ProviderConfig in spec.providerConfigRef",
            is_forbidden=True,
        ) from error
    if is_served:
        # The kind appeared after the read: the read found no object because of the missing kind.
        raise DefaultNotRead("ButlerConfigs are served only now: trying again") from error


@dataclass(frozen=True, slots=True)
class _FailedRead:
    """A read that did not find the platform's default: why, and when (monotonic seconds)."""

    why: str
    read_at: float


@dataclass(frozen=True, slots=True)
class _PlatformDefault:
    """The platform's default and when it was read, in monotonic seconds.

    Args:
        key: None if there is no default.
    """

    key: Key | None
    read_at: float


def find_provider(
    tenant: TenantCluster,
    configs: Cache[ProviderConfig],
    default_namespace: str,
    platform_default: Key | None,
) -> ProviderConfig | None:
    """Return the ProviderConfig that counts for `tenant`; None if it is absent, or none counts.

    The module docstring has the order.

    Raises:
        ProviderUnreadable: the ProviderConfig that counts, or may count, cannot be read.
    """
    key = find_provider_key(tenant, default_namespace, platform_default)
    unreadable_key = _find_unreadable(configs, key, default_namespace)
    if unreadable_key is not None:
        raise ProviderUnreadable(unreadable_key)
    if key is not None:
        return configs.get(key)
    fallback = configs.get(Key(default_namespace, "default"))
    if fallback is not None:
        return fallback
    of_namespace = [config for config in configs if config.metadata.namespace == default_namespace]
    return min(of_namespace, key=lambda config: config.metadata.key, default=None)


def _find_unreadable(
    configs: Cache[ProviderConfig], key: Key | None, default_namespace: str
) -> Key | None:
    """Return the key of the ProviderConfig that counts if it cannot be read; else None.

    Args:
        configs: all ProviderConfigs; `unreadable` has the keys of those that cannot be parsed.
        key: the result of `find_provider_key`; None if neither cluster nor platform names one.
        default_namespace: the namespace whose ProviderConfigs count where no key is given.
    """
    unreadable_keys = configs.unreadable
    fallback = Key(default_namespace, "default")
    if key is not None:
        return key if key in unreadable_keys else None
    if fallback in unreadable_keys:
        return fallback
    if fallback in configs:
        return None  # it counts, and can be read
    # The first ProviderConfig by name counts, and the name of an unreadable one is known, too.
    unreadable_of_namespace = {
        key for key in unreadable_keys if key.namespace == default_namespace
    }
    readable_of_namespace = {
        config.metadata.key for config in configs if config.metadata.namespace == default_namespace
    }
    first = min(unreadable_of_namespace | readable_of_namespace, default=None)
    return first if first in unreadable_of_namespace else None


def describe_unknown(why: ProviderUnknown) -> ConditionFinding:
    """Return condition NetworkReady of a cluster while its ProviderConfig is not known."""
    return make_network_ready(False, why.reason, str(why))


def find_obstacle(
    tenant: TenantCluster,
    provider: ProviderConfig | None,
    key: Key | None,
    namespaces: Sequence[str] = (),
) -> ConditionFinding | None:
    """Return condition NetworkReady if a cluster may not use its ProviderConfig; None if it may.

    The first of these obstacles: the ProviderConfig does not exist; it has mode ipam and no pools;
    its namespace is not allowed; its scope is another team.

    Args:
        provider: the cluster's ProviderConfig; None if it does not exist.
        key: the result of `find_provider_key`.
        namespaces: the namespaces whose ProviderConfigs count; empty for all.
    """
    if provider is None:
        return make_network_ready(False, "ProviderConfigNotFound", describe_absent(tenant, key))
    if provider.spec.networking.mode == IPAM and not provider.spec.networking.poolRefs:
        return make_network_ready(
            False, "NetworkNotReady", "IPAM mode but no poolRefs configured on provider"
        )
    refused = describe_refused_namespace(provider.metadata.namespace, namespaces)
    if refused:
        message = f"ProviderConfig {provider.metadata.key} is not used: {refused}"
        return make_network_ready(False, NAMESPACE_NOT_ALLOWED, message)
    return _find_denial(tenant, provider)


def _find_denial(tenant: TenantCluster, provider: ProviderConfig) -> ConditionFinding | None:
    """Return condition NetworkReady if the provider's scope excludes `tenant`; else None.

    A ProviderConfig with the scope of a team serves the clusters of that team.
    """
    scope = provider.spec.scope
    if scope is None or scope.type != TEAM or scope.teamRef is None:
        return None  # it serves all clusters
    team = tenant.spec.teamRef
    if team is None:
        # A cluster without a team counts as one of its namespace's team. Other controllers decide
        # who may create clusters in a namespace.
        return None
    if team.name == scope.teamRef.name:
        return None
    return make_network_ready(
        False,
        "ProviderAccessDenied",
        f"ProviderConfig {provider.metadata.key} serves team {scope.teamRef.name} alone,"
        f" and this cluster is of team {team.name}",
    )
