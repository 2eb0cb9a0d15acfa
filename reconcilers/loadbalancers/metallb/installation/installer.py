"""Applying the bundle to a tenant, one step of a pass at a time.

missing, another bundle, or objects of it gone?    apply, server-side, in order
kinds not established yet?                         write the condition, and go on next time
all of it applied?                                 write its digest on the TenantCluster

Nothing waits inside a pass: a kind that is not established yet is checked again in the next one.
An attempt that has not applied all of it is repeated after a second, then less and less often.
That MetalLB's kinds are served does not end this: the rest of the bundle may still be missing.
At rest nothing is read; whether objects of the bundle are gone is checked in the first pass of a
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
    parse,
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
class Applied:
    """Any object of a bundle, as decoded from a tenant's answer."""

    metadata: ObjectMeta
    status: ObjectStatus = field(default_factory=ObjectStatus)


CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)


FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class InstallationAttempt:
    """Attempts that have not applied all of the bundle, and when the next one is due.

    Args:
        is_missing: whether the tenant lacked MetalLB's kinds. If that changes, the back-off begins
            again: kinds that are served now were what the attempts waited for.
        times: how many attempts there were.
        due: when the next one is due, in monotonic seconds.
        finding: the condition after the last one.
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
        attempt: the attempts since then; None if the last one applied all of the bundle.
    """

    checked_at: float | None = None
    attempt: InstallationAttempt | None = None


class _NotYet(Exception):
    """The rest of the bundle cannot be applied yet; the message says what is waited for."""


class _Refused(Exception):
    """The tenant refuses an object for good; the message says which and why."""


def find_condition(status: bool, reason: str, message: str) -> ConditionFinding:
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
        where, _, name = settings.metallb_bundle.rpartition("/")
        self._key = Key(where or namespace, name)
        self._read: tuple[float, Bundle] | None = None

    @override
    def due_in(self, memory: BalancerMemory) -> float | None:
        last = memory.get_or_create(InstallationMemory).attempt
        return max(FIRST_PAUSE, last.due - self._clock.monotonic()) if last is not None else None

    @override
    async def install(
        self, tenant: TenantCluster, memory: BalancerMemory, annotate: Annotate, *, missing: bool
    ) -> ConditionFinding | None:
        if not self._settings.metallb_bundle or tenant.observed_only:
            return None
        known = memory.get_or_create(InstallationMemory)
        now, last = self._clock.monotonic(), known.attempt
        if last is not None and last.is_missing != missing:
            last = known.attempt = None
        if missing:
            known.checked_at = None
        if last is not None and now < last.due:
            return last.finding
        if last is None and known.checked_at is not None and not self._is_due(known.checked_at):
            return None
        finding = await self._install(tenant, annotate, missing=missing)
        if finding is None:
            return None
        if finding.status:
            known.attempt, known.checked_at = None, self._clock.monotonic()
            return finding
        times = last.times if last is not None else 0
        pause = min(FIRST_PAUSE * 2 ** min(times, 10), LONGEST_PAUSE)
        known.attempt = InstallationAttempt(missing, times + 1, due=now + pause, finding=finding)
        return finding

    async def _install(
        self, tenant: TenantCluster, annotate: Annotate, *, missing: bool
    ) -> ConditionFinding | None:
        """Apply the bundle to a tenant and record its digest; return the condition to show."""
        try:
            bundle = await self._bundle()
            async with self._tenants.client(tenant) as client:
                changed = await self._apply(client, tenant, bundle, missing=missing)
        except TenantUnavailable:
            return None  # LoadBalancerReady has the reason
        except (InvalidBundle, _NotYet, _Refused) as problem:
            return find_condition(False, *self._describe(problem))
        if tenant.metadata.annotations.get(names.ANNOTATION_METALLB_BUNDLE) != bundle.digest:
            await annotate({names.ANNOTATION_METALLB_BUNDLE: bundle.digest})
        if changed:
            _log.info("installed MetalLB in the tenant", tenant=str(tenant.metadata.key))
        if missing:  # the next pass sees whether all of it is there
            return find_condition(False, BEING_INSTALLED, "MetalLB was just installed")
        return find_condition(True, "Installed", f"the bundle {bundle.digest} is applied")

    def _describe(self, problem: Exception) -> tuple[str, str]:
        """Return the condition's reason and message for a problem."""
        match problem:
            case InvalidBundle():
                return BUNDLE_INVALID, f"ConfigMap {self._key}: {problem}"
            case _NotYet():
                return BEING_INSTALLED, f"installing MetalLB: waiting for {problem}"
            case _:
                return "MetalLBInstallFailed", f"MetalLB cannot be installed: {problem}"

    def _is_due(self, checked_at: float) -> bool:
        return self._clock.monotonic() - checked_at >= self._settings.metallb_recheck

    async def _bundle(self) -> Bundle:
        """Return the bundle of the ConfigMap, read again at most every BUNDLE_SECONDS."""
        now = self._clock.monotonic()
        if self._read is not None and now - self._read[0] < BUNDLE_SECONDS:
            return self._read[1]
        try:
            stored = await self._client.get(CONFIG_MAP, self._key)
        except NotFound:
            raise InvalidBundle("it does not exist; create it, or name another one") from None
        except Forbidden:
            raise InvalidBundle("it may not be read; allow `get` on it") from None
        bundle = parse(stored.data)
        self._read = (now, bundle)
        return bundle

    async def _apply(
        self, client: Client, tenant: TenantCluster, bundle: Bundle, *, missing: bool
    ) -> bool:
        """Apply the bundle if it has to be; return whether it was."""
        applied = tenant.metadata.annotations.get(names.ANNOTATION_METALLB_BUNDLE)
        objects = _BundleObjects(client, self._settings.metallb_namespace)
        if applied == bundle.digest and not missing and await objects.all_exist(bundle):
            return False
        first = [manifest for manifest in bundle.manifests if manifest.first]
        for manifest in first:
            await objects.apply(manifest)
        for manifest in first:
            await objects.check_established(manifest)
        for manifest in bundle.manifests[len(first) :]:
            await objects.apply(manifest)
        return True


class _BundleObjects:
    """The objects of a bundle in one tenant; its discovery gives the paths of their kinds."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._resources: dict[tuple[str, str], Resource[Applied]] = {}

    async def all_exist(self, bundle: Bundle) -> bool:
        """Return whether every object of the bundle exists."""
        try:
            for manifest in bundle.manifests:
                resource = await self._resource(manifest)
                await self._client.get(resource, self._key(resource, manifest))
        except (NotFound, _NotYet):
            return False
        return True

    async def apply(self, manifest: BundledManifest) -> None:
        """Apply one manifest; raise _Refused if the tenant refuses it for good."""
        resource = await self._resource(manifest)
        try:
            await self._client.apply(
                resource,
                self._key(resource, manifest),
                manifest.body,
                manager=names.TENANT_FIELD_MANAGER,
                force=True,
            )
        except (Invalid, Forbidden) as refused:
            raise _Refused(f"{manifest}: {refused}") from refused
        except ApiError as error:
            if error.status >= 500 or error.status in {401, 409, 429}:
                raise
            raise _Refused(f"{manifest}: {error}") from error

    async def check_established(self, manifest: BundledManifest) -> None:
        if manifest.kind != "CustomResourceDefinition":
            return
        resource = await self._resource(manifest)
        definition = await self._client.get(resource, self._key(resource, manifest))
        if not is_true(definition.status.conditions or (), "Established"):
            raise _NotYet(f"{manifest} to be established")

    def _key(self, resource: Resource[Applied], manifest: BundledManifest) -> Key:
        if not resource.namespaced:
            return Key("", manifest.key.name)
        return Key(manifest.key.namespace or self._namespace, manifest.key.name)

    async def _resource(self, manifest: BundledManifest) -> Resource[Applied]:
        version_and_kind = (manifest.api_version, manifest.kind)
        if version_and_kind not in self._resources:
            served_kind = await self._client.find_kind(manifest.api_version, manifest.kind)
            if served_kind is None:
                raise _NotYet(f"the tenant to serve {manifest.kind} of {manifest.api_version}")
            group, _, version = manifest.api_version.rpartition("/")
            plural, namespaced = served_kind
            self._resources[version_and_kind] = Resource(
                group, version, manifest.kind, plural, Applied, namespaced
            )
        return self._resources[version_and_kind]
