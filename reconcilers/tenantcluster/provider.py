"""Which ProviderConfig counts for a tenant, and why it may not be used.

the tenant's providerConfigRef
the platform's default, from ButlerConfig if that kind is served
the ProviderConfig named `default`
the first one there is
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
from reconcilers.tenantcluster.status import network_ready

TEAM = "team"
"""The scope of a provider that serves one team."""
BUTLER_CONFIG_KEY = Key("", "butler")
DEFAULT_SECONDS = 300.0
"""After how many seconds the platform's default is read again."""
UNKNOWN_SECONDS = 10.0
"""After how many seconds it is read again while it is not known."""


class ProviderUnknown(Exception):
    """It is not known which ProviderConfig counts for a cluster, or what it says.

    To take another one meanwhile could give a cluster addresses of the wrong network for good.
    The message says what is wrong and what to do. It is the same for each replica and each look.
    """

    reason: ClassVar[str]
    """Of the condition NetworkReady."""
    key: Key | None = None
    """The ProviderConfig that counts; None if that is not known."""


class ProviderProblem(Exception):
    """A cluster cannot request addresses by its ProviderConfig, or has none.

    Args:
        finding: the condition NetworkReady that says why.
        is_known: whether the ProviderConfig that counts is known; else it soon may be.
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
        self._platform: _Default | None = None
        self._unknown: _Unknown | None = None
        self._reading = anyio.Lock()

    async def for_tenant(self, tenant: TenantCluster) -> ProviderConfig | None:
        """Return the ProviderConfig of `tenant`; None if there is none for it.

        The platform's default is read once, and again every few minutes while a cluster that is
        not Ready needs it. One that is keeps to what was read last, so at rest it costs nothing.
        That it is not known is remembered too, for all clusters.

        Raises:
            ProviderUnknown: the platform's default may not be read, or not yet, or the
                ProviderConfig cannot be read.
            ControllerError: the platform's default could not be read.
        """
        default = None
        if tenant.spec.providerConfigRef is None:
            default = (await self._default(tenant)).key
        return find_provider(
            tenant, self._configs, default_namespace=self._namespace, platform_default=default
        )

    async def _default(self, tenant: TenantCluster) -> "_Default":
        """Return the platform's default, by one read for all clusters that ask meanwhile.

        Raises:
            DefaultUnknown: it is not known, by a read of the last seconds.
            ControllerError: it could not be read.
        """
        known = self._find_fresh_default(tenant)
        if known is not None:
            return known
        async with self._reading:
            known = self._find_fresh_default(tenant)  # by a read that began before
            if known is not None:
                return known
            try:
                key = await read_platform_default(self._client, self._namespace)
            except DefaultNotRead as error:
                self._unknown = _Unknown(str(error), self._clock.monotonic())
                raise DefaultUnknown(str(error)) from error
            self._unknown = None
            known = self._platform = _Default(key, self._clock.monotonic())
            return known

    def _find_fresh_default(self, tenant: TenantCluster) -> "_Default | None":
        """Return the platform's default from the last read; None if it has to be read again.

        A cluster that is Ready accepts a read of any age.

        Raises:
            DefaultUnknown: a read within the last UNKNOWN_SECONDS did not find it.
        """
        known, unknown, now = self._platform, self._unknown, self._clock.monotonic()
        if known is not None and (tenant.is_ready or now - known.read_at < DEFAULT_SECONDS):
            return known
        if unknown is not None and now - unknown.read_at < UNKNOWN_SECONDS:
            raise DefaultUnknown(unknown.why)
        return None

    async def require(self, tenant: TenantCluster) -> ProviderConfig:
        """Return the ProviderConfig by which `tenant` gets addresses, or is left alone.

        Raises:
            ProviderProblem: there is none, it is not known, or it may not be used.
            ControllerError: the platform's default could not be read.
        """
        try:
            provider = await self.for_tenant(tenant)
        except ProviderUnknown as unknown:
            raise ProviderProblem(provider_unknown(unknown), is_known=False) from unknown
        problem = self.find_obstacle(tenant, provider)
        if problem is not None:
            raise ProviderProblem(problem, is_known=True)
        assert provider is not None, "a missing ProviderConfig is a problem"
        return provider

    def find_obstacle(
        self, tenant: TenantCluster, provider: ProviderConfig | None
    ) -> ConditionFinding | None:
        """Return why `tenant` gets no addresses by its provider; None if it does."""
        default = self._platform.key if self._platform is not None else None
        key = find_provider_key(tenant, self._namespace, default)
        return find_obstacle(tenant, provider, key=key, namespaces=self._namespaces)


class DefaultNotRead(Exception):
    """A read of ButlerConfig did not tell the platform's default; the message says why.

    Args:
        why: why, and what to do.
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
        await _check_absent(client, error)
        return None
    reference = config.spec.defaultProviderConfigRef if config is not None else None
    return parse_reference(reference, default_namespace)


async def _check_absent(client: Client, error: ApiError) -> None:
    """Raise DefaultNotRead if ButlerConfigs may be served; `error` is what a read gave."""
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
        raise DefaultNotRead("ButlerConfigs are served only now: trying again") from error


@dataclass(frozen=True, slots=True)
class _Unknown:
    """Why the platform's default is not known, and when that was found."""

    why: str
    read_at: float


@dataclass(frozen=True, slots=True)
class _Default:
    """The default of ButlerConfig and when it was read; None if it names no ProviderConfig."""

    key: Key | None
    read_at: float


def find_provider(
    tenant: TenantCluster,
    configs: Cache[ProviderConfig],
    default_namespace: str,
    platform_default: Key | None,
) -> ProviderConfig | None:
    """Return the ProviderConfig that counts for `tenant`; None if there is none for it.

    Raises:
        ProviderUnreadable: the ProviderConfig that counts, or may count, cannot be read.
    """
    key = find_provider_key(tenant, default_namespace, platform_default)
    unreadable = _unreadable(configs, key, default_namespace)
    if unreadable is not None:
        raise ProviderUnreadable(unreadable)
    if key is not None:
        return configs.get(key)
    fallback = configs.get(Key(default_namespace, "default"))
    return fallback or next(
        (c for c in sorted(configs, key=_by_key) if _namespace(c) == default_namespace), None
    )


def _unreadable(
    configs: Cache[ProviderConfig], key: Key | None, default_namespace: str
) -> Key | None:
    """Return the ProviderConfig that counts, or may count, and cannot be read; None if none.

    The first one of the namespace counts by its name alone, so one that cannot be read does.

    Args:
        configs: all ProviderConfigs.
        key: what `find_provider_key` returned.
        default_namespace: whose ProviderConfigs count where none is wanted.
    """
    unreadable, fallback = configs.unreadable, Key(default_namespace, "default")
    if key is not None:
        return key if key in unreadable else None
    if fallback in configs or fallback in unreadable:
        return fallback if fallback in unreadable else None
    of_namespace = {key for key in unreadable if key.namespace == default_namespace}
    present = {
        config.metadata.key for config in configs if _namespace(config) == default_namespace
    }
    first = min(of_namespace | present, default=None)
    return first if first in of_namespace else None


def _by_key(config: ProviderConfig) -> Key:
    return config.metadata.key


def _namespace(config: ProviderConfig) -> str:
    return config.metadata.namespace


def provider_unknown(why: ProviderUnknown) -> ConditionFinding:
    """Return condition NetworkReady of a cluster while its ProviderConfig is not known."""
    return network_ready(False, why.reason, str(why))


def find_obstacle(
    tenant: TenantCluster,
    provider: ProviderConfig | None,
    key: Key | None,
    namespaces: Sequence[str] = (),
) -> ConditionFinding | None:
    """Return why a cluster gets no addresses by its ProviderConfig; None if it does.

    Args:
        provider: its ProviderConfig; None if it does not exist.
        key: what `find_provider_key` returned.
        namespaces: the namespaces whose ProviderConfigs count; empty for all.
    """
    if provider is None:
        return network_ready(False, "ProviderConfigNotFound", describe_absent(tenant, key))
    if provider.spec.networking.mode == IPAM and not provider.spec.networking.poolRefs:
        return network_ready(
            False, "NetworkNotReady", "IPAM mode but no poolRefs configured on provider"
        )
    refused = describe_refused_namespace(provider.metadata.namespace, namespaces)
    if refused:
        message = f"ProviderConfig {provider.metadata.key} is not used: {refused}"
        return network_ready(False, NAMESPACE_NOT_ALLOWED, message)
    return _find_denial(tenant, provider)


def _find_denial(tenant: TenantCluster, provider: ProviderConfig) -> ConditionFinding | None:
    """Return why the provider's scope excludes `tenant`, None if it does not.

    A provider of one team serves that team's clusters. A cluster that names no team is taken for
    its namespace's, which other controllers guard.
    """
    scope = provider.spec.scope
    if scope is None or scope.type != TEAM or scope.teamRef is None:
        return None
    team = tenant.spec.teamRef
    if team is None or team.name == scope.teamRef.name:
        return None
    return network_ready(
        False,
        "ProviderAccessDenied",
        f"ProviderConfig {provider.metadata.key} serves team {scope.teamRef.name} alone,"
        f" and this cluster is of team {team.name}",
    )
