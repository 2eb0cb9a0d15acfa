"""Installs MetalLB in a tenant: applies the bundle, as far as one pass can.

MetalLB missing, another bundle, or objects gone?   apply the bundle, server-side, in order
kinds not established yet?                          report it, and go on in a later pass
all of it applied?                                  note its digest on the TenantCluster

Nothing waits inside a pass: a kind that is not established yet is checked again in a later pass.
An attempt that has not applied the whole bundle is repeated after a second, then less and less
often. It is repeated even if MetalLB's kinds are served: the rest of the bundle may be missing.

At rest nothing is read. Whether objects of the bundle are gone is checked in the first pass of a
process, whenever MetalLB is missing, and every `metallb_recheck` seconds.
"""

from dataclasses import dataclass, field

from typing_extensions import override

from controller.client import Client
from controller.clock import Clock
from controller.conditions import Condition, is_true
from controller.errors import ApiError, Forbidden, Invalid, NotFound
from controller.loggers import get_logger
from controller.meta import Key, ObjectMeta
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.metallb.installation.bundle import (
    Bundle,
    BundledManifest,
    InvalidBundle,
    parse_bundle,
)
from reconcilers.loadbalancers.port import Annotate, BalancerInstaller, BalancerMemory
from reconcilers.reporting.conditions import ConditionFinding

_log = get_logger(__name__)

BEING_INSTALLED = "MetalLBInstalling"
"""The reason while the bundle is being applied."""
BUNDLE_INVALID = "MetalLBBundleInvalid"
"""The reason where the ConfigMap holds no bundle."""
BUNDLE_SECONDS = 60.0
"""After how many seconds the ConfigMap is read again."""
METALLB_INSTALLED = "MetalLBInstalled"
"""The type of the condition."""


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A ConfigMap."""

    metadata: ObjectMeta
    data: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The conditions in any object's status.

    API servers write null for the conditions of a definition that they have not processed yet.
    """

    conditions: tuple[Condition, ...] | None = None


@dataclass(frozen=True, slots=True)
class AppliedObject:
    """Any object of a bundle, as decoded from a tenant's answer."""

    metadata: ObjectMeta
    status: ObjectStatus = field(default_factory=ObjectStatus)


CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)


FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class InstallationAttempt:
    """Attempts that have not applied the whole bundle, and when the next attempt is due.

    Args:
        is_missing: whether the tenant lacked MetalLB's kinds. If that changes, the back-off begins
            again: the attempts may have waited for these kinds.
        times: how many attempts there were.
        due: when the next attempt is due, in monotonic seconds.
        finding: the condition after the last attempt.
    """

    is_missing: bool
    times: int
    due: float
    finding: ConditionFinding


@dataclass(slots=True)
class InstallationMemory:
    """What is remembered of the installation of MetalLB in one tenant.

    Args:
        checked_at: when all objects of the bundle were last known to exist (monotonic seconds);
            None if that is not known.
        attempt: the attempts since then; None if the last attempt applied the whole bundle.
    """

    checked_at: float | None = None
    attempt: InstallationAttempt | None = None


class _NotYetPossible(Exception):
    """The rest of the bundle cannot be applied yet; the message says what is waited for."""


class _Rejected(Exception):
    """The tenant rejects an object for good; the message says which and why."""


def make_installed_condition(status: bool, reason: str, message: str) -> ConditionFinding:
    """Return the MetalLBInstalled condition, which says how far the bundle is applied."""
    return ConditionFinding(METALLB_INSTALLED, status, reason=reason, message=message)


class Installer(BalancerInstaller):
    """Installs MetalLB in tenants.

    Args:
        client: the management cluster, where the bundle is.
        clock: the time.
        settings: names the ConfigMap; without one nothing is installed.
        namespace: where a ConfigMap without a namespace is.
    """

    provider = DEFAULT_LOAD_BALANCER
    condition = METALLB_INSTALLED
    installing_reason = BEING_INSTALLED

    def __init__(
        self,
        client: Client,
        tenants: TenantClients,
        clock: Clock,
        settings: TenantSettings,
        namespace: str,
    ) -> None:
        self._client = client
        self._tenants = tenants
        self._clock = clock
        self._settings = settings
        bundle_namespace, _, name = settings.metallb_bundle.rpartition("/")
        self._key = Key(bundle_namespace or namespace, name)
        self._bundle: Bundle | None = None
        self._bundle_read_at = 0.0
        """When the bundle was last read, in monotonic seconds."""

    @override
    def compute_check_delay(self, memory: BalancerMemory) -> float | None:
        """Return the seconds until the next attempt; None if no attempt is to be repeated."""
        attempt = memory.get_or_create(InstallationMemory).attempt
        if attempt is None:
            return None
        # An overdue attempt needs another pass, which begins after FIRST_PAUSE at the earliest.
        return max(FIRST_PAUSE, attempt.due - self._clock.monotonic())

    @override
    async def install(
        self,
        tenant: TenantCluster,
        memory: BalancerMemory,
        annotate: Annotate,
        *,
        is_missing: bool,
    ) -> ConditionFinding | None:
        """Install MetalLB if an attempt or a check is due; return the MetalLBInstalled condition.

        Returns:
            The condition of this attempt, or of the last one until the next is due. None to keep
            the condition in the status: if there is no bundle, if no check is due, or if the
            tenant did not answer.
        """
        if not self._settings.metallb_bundle or tenant.observed_only:
            return None  # there is no bundle, or another controller installs MetalLB
        installation = memory.get_or_create(InstallationMemory)
        now, attempt = self._clock.monotonic(), installation.attempt
        if attempt is not None and attempt.is_missing != is_missing:
            # The tenant has changed: the back-off begins again.
            attempt = installation.attempt = None
        if is_missing:
            # The objects of the bundle are not all there, so a check is due at once.
            installation.checked_at = None
        if attempt is not None and now < attempt.due:
            return attempt.finding
        checked_at = installation.checked_at
        if attempt is None and checked_at is not None and not self._is_check_due(checked_at):
            return None  # all of the bundle was there a while ago: at rest nothing is read
        finding = await self._install(tenant, annotate, is_missing=is_missing)
        if finding is None:
            return None
        if finding.status:
            installation.attempt = None
            installation.checked_at = self._clock.monotonic()
            return finding
        times = attempt.times if attempt is not None else 0
        # The exponent is bounded, so that the power stays small after many attempts.
        pause = min(FIRST_PAUSE * 2 ** min(times, 10), LONGEST_PAUSE)
        installation.attempt = InstallationAttempt(
            is_missing, times + 1, due=now + pause, finding=finding
        )
        return finding

    async def _install(
        self, tenant: TenantCluster, annotate: Annotate, *, is_missing: bool
    ) -> ConditionFinding | None:
        """Apply the bundle to a tenant, and then note its digest on the TenantCluster.

        Args:
            is_missing: whether the tenant is known not to serve MetalLB's kinds.

        Returns:
            The condition; None to keep the one in the status, because the tenant did not answer.
        """
        try:
            bundle = await self._read_bundle()
            async with self._tenants.open_client(tenant) as client:
                is_applied = await self._apply_if_needed(
                    client, tenant, bundle, is_missing=is_missing
                )
        except TenantUnavailable:
            return None  # LoadBalancerReady has the reason
        except (InvalidBundle, _NotYetPossible, _Rejected) as problem:
            return make_installed_condition(False, *self._describe_problem(problem))
        if tenant.metadata.annotations.get(names.ANNOTATION_METALLB_BUNDLE) != bundle.digest:
            await annotate({names.ANNOTATION_METALLB_BUNDLE: bundle.digest})
        if is_applied:
            _log.info("installed MetalLB in the tenant", tenant=str(tenant.metadata.key))
        if is_missing:
            # A later pass sees whether the tenant serves MetalLB's kinds now.
            return make_installed_condition(False, BEING_INSTALLED, "MetalLB was just installed")
        return make_installed_condition(
            True, "Installed", f"the bundle {bundle.digest} is applied"
        )

    def _describe_problem(self, problem: Exception) -> tuple[str, str]:
        """Return the reason and the message of the condition that reports a problem."""
        match problem:
            case InvalidBundle():
                return BUNDLE_INVALID, f"ConfigMap {self._key}: {problem}"
            case _NotYetPossible():
                return BEING_INSTALLED, f"installing MetalLB: waiting for {problem}"
            case _:  # the tenant rejects an object
                return "MetalLBInstallFailed", f"MetalLB cannot be installed: {problem}"

    def _is_check_due(self, checked_at: float) -> bool:
        """Return whether to check again that all objects of the bundle exist."""
        return self._clock.monotonic() - checked_at >= self._settings.metallb_recheck

    async def _read_bundle(self) -> Bundle:
        """Return the bundle of the ConfigMap, read at most every BUNDLE_SECONDS for all tenants.

        Raises:
            InvalidBundle: the ConfigMap is missing, may not be read, or has no valid bundle.
        """
        now = self._clock.monotonic()
        if self._bundle is not None and now - self._bundle_read_at < BUNDLE_SECONDS:
            return self._bundle
        try:
            stored = await self._client.get(CONFIG_MAP, self._key)
        except NotFound:
            raise InvalidBundle("it does not exist; create it, or name another one") from None
        except Forbidden:
            raise InvalidBundle("it may not be read; allow `get` on it") from None
        self._bundle = parse_bundle(stored.data)
        self._bundle_read_at = now
        return self._bundle

    async def _apply_if_needed(
        self, client: Client, tenant: TenantCluster, bundle: Bundle, *, is_missing: bool
    ) -> bool:
        """Apply the bundle unless all of it is there already; return whether it was applied.

        Args:
            is_missing: whether the tenant is known not to serve MetalLB's kinds: then all of the
                bundle is applied without a check.

        Raises:
            _NotYetPossible: a kind is not established, so the rest cannot be applied in this pass.
            _Rejected: the tenant rejects an object for good.
        """
        noted_digest = tenant.metadata.annotations.get(names.ANNOTATION_METALLB_BUNDLE)
        objects = _BundleObjects(client, self._settings.metallb_namespace)
        if noted_digest == bundle.digest and not is_missing and await objects.all_exist(bundle):
            return False
        # The manifests are in order: all prerequisites come before the rest.
        prerequisites = [manifest for manifest in bundle.manifests if manifest.is_prerequisite]
        for manifest in prerequisites:
            await objects.apply(manifest)
        for manifest in prerequisites:
            await objects.require_established(manifest)
        for manifest in bundle.manifests[len(prerequisites) :]:
            await objects.apply(manifest)
        return True


class _BundleObjects:
    """The objects of a bundle in one tenant; its discovery gives the paths of their kinds."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._resources: dict[tuple[str, str], Resource[AppliedObject]] = {}

    async def all_exist(self, bundle: Bundle) -> bool:
        """Return whether every object of the bundle exists; False if a kind is not served."""
        try:
            for manifest in bundle.manifests:
                resource = await self._find_resource(manifest)
                await self._client.get(resource, self._make_key(resource, manifest))
        except (NotFound, _NotYetPossible):
            return False
        return True

    async def apply(self, manifest: BundledManifest) -> None:
        """Apply one manifest.

        Raises:
            _NotYetPossible: the tenant does not serve its kind yet.
            _Rejected: the tenant rejects it for good.
            ApiError: the tenant rejects it for now: overload, a conflict or an expired token.
        """
        resource = await self._find_resource(manifest)
        try:
            await self._client.apply(
                resource,
                self._make_key(resource, manifest),
                manifest.body,
                manager=names.TENANT_FIELD_MANAGER,
                force=True,
            )
        except (Invalid, Forbidden) as refused:
            raise _Rejected(f"{manifest}: {refused}") from refused
        except ApiError as error:
            if error.status >= 500 or error.status in {401, 409, 429}:
                raise
            raise _Rejected(f"{manifest}: {error}") from error

    async def require_established(self, manifest: BundledManifest) -> None:
        """Raise _NotYet while the tenant does not serve the kind of a definition yet."""
        if manifest.kind != "CustomResourceDefinition":
            return  # a namespace, the other kind of prerequisite, can be used at once
        resource = await self._find_resource(manifest)
        definition = await self._client.get(resource, self._make_key(resource, manifest))
        if not is_true(definition.status.conditions or (), "Established"):
            raise _NotYetPossible(f"{manifest} to be established")

    def _make_key(self, resource: Resource[AppliedObject], manifest: BundledManifest) -> Key:
        """Return the key of a manifest's object; its default namespace is MetalLB's."""
        if not resource.namespaced:
            return Key("", manifest.key.name)
        return Key(manifest.key.namespace or self._namespace, manifest.key.name)

    async def _find_resource(self, manifest: BundledManifest) -> Resource[AppliedObject]:
        """Return the kind of a manifest as the tenant serves it; raise _NotYet if it does not."""
        version_and_kind = (manifest.api_version, manifest.kind)
        if version_and_kind not in self._resources:
            served_kind = await self._client.find_kind(manifest.api_version, manifest.kind)
            if served_kind is None:
                raise _NotYetPossible(
                    f"the tenant to serve {manifest.kind} of {manifest.api_version}"
                )
            group, _, version = manifest.api_version.rpartition("/")
            plural, namespaced = served_kind
            self._resources[version_and_kind] = Resource(
                group, version, manifest.kind, plural, AppliedObject, namespaced
            )
        return self._resources[version_and_kind]
