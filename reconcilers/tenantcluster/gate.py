"""Has the tenant let go of a range? Asked before the range counts as free again."""

from collections.abc import Callable

import structlog
from typing_extensions import override

from allocator import AddressRange
from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import MalformedAnswer, NotFound
from controller.events import Recorder
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import NAMESPACE, SERVICE, TENANT_CLUSTER, Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.ipallocation.gate import Gate, Holding, LetGo
from reconcilers.settings import TenantSettings
from reconcilers.tenantcluster.departed import Departed
from reconcilers.tenantcluster.elastic.inventory import addresses, is_ours
from reconcilers.tenantcluster.kubeconfigs import NoWayIn
from reconcilers.tenantcluster.membership import is_foreign
from reconcilers.tenantcluster.metallb import MetalLB, Unavailable, basis_of
from reconcilers.tenantcluster.tenants import FIRST_PAUSE, LONGEST_PAUSE, Tenants

_log = structlog.get_logger(__name__)


class TenantGate(Gate):
    """Looks into the tenant, and knows when nobody needs to.

    Args:
        client: the management cluster.
        clusters: its TenantClusters.
        departed: those that are gone.
        tenants: the ways into tenants.
        recorder: tells people when addresses are given back without the tenant's word.
        clock: for the teardown grace.
        settings: how long a deleted cluster may stay unreachable.
    """

    def __init__(  # noqa: PLR0913 - what it looks into; the wiring is the one caller
        self,
        client: Client,
        clusters: Cache[TenantCluster],
        departed: Departed,
        tenants: Tenants,
        *,
        recorder: Recorder,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._client = client
        self._clusters = clusters
        self._departed = departed
        self._tenants = tenants
        self._recorder = recorder
        self._clock = clock
        self._settings = settings
        # Since when each deleted cluster's tenant has not answered, by its uid. Lost with
        # the process, which begins the grace anew: rather too long than too short.
        self._silent_since: dict[str, float] = {}
        # How often a deleted cluster's Secret was read, and when it may be again, by its uid.
        self._secret_reads: dict[str, tuple[int, float]] = {}

    @override
    async def ask(self, allocation: IPAllocation, mark: int) -> LetGo | Holding:
        if allocation.spec.type == names.TYPE_NODES:
            return LetGo("node addresses are not projected into the tenant")
        present = await self._owner(allocation)
        if present is None or is_foreign(allocation, present):
            return await self._ask_departed(allocation, mark, present)
        if names.ANNOTATION_RELEASE_ANYWAY in present.metadata.annotations:
            return _anyway()
        if not present.metadata.terminating:
            return await self._look(present, allocation, mark)
        if names.ANNOTATION_PROJECTION_BEGUN not in present.metadata.annotations:
            return LetGo("nothing was ever projected into the tenant")
        return await self._ask_at_last(present, allocation, mark)

    async def _ask_departed(
        self, allocation: IPAllocation, mark: int, present: TenantCluster | None
    ) -> LetGo | Holding:
        """Ask the tenant of a cluster that is gone.

        Another cluster that has the name by now may be in that same tenant, or in its place.
        """
        departed = self._departed.owner(allocation)
        if departed is None:
            return LetGo("its TenantCluster is gone")
        if names.ANNOTATION_RELEASE_ANYWAY in departed.metadata.annotations:
            return _anyway()
        return await self._ask_at_last(present or departed, allocation, mark)

    async def _owner(self, allocation: IPAllocation) -> TenantCluster | None:
        """Return the TenantCluster; that there is none is believed of a live read only."""
        key = allocation.spec.tenantClusterRef.key
        cached = self._clusters.get(key)
        if cached is not None and not is_foreign(allocation, cached):
            return cached
        try:
            return await self._client.get(TENANT_CLUSTER, key)
        except NotFound as missing:
            if missing.reason != "NotFound":
                raise MalformedAnswer(f"TenantCluster {key}: {missing}") from missing
            return None

    async def _ask_at_last(
        self, tenant: TenantCluster, allocation: IPAllocation, mark: int
    ) -> LetGo | Holding:
        """Ask the tenant of a cluster that is being deleted, or is gone: silence ends some day."""
        if await self._secret_is_gone(tenant):
            return LetGo("the tenant's kubeconfig Secret, or its namespace, is gone")
        answer = await self._look(tenant, allocation, mark)
        if isinstance(answer, LetGo) or answer.answered:
            # Only failed attempts count: a tenant that answers, and holds on, is believed.
            self._silent_since.pop(tenant.metadata.uid, None)
            return answer
        now = self._clock.monotonic()
        waited = now - self._silent_since.setdefault(tenant.metadata.uid, now)
        if waited < self._settings.teardown_grace:
            return answer
        self._recorder.record(
            TENANT_CLUSTER,
            tenant,
            "Warning",
            "TeardownGracePassed",
            f"Releasing {allocation.metadata.name} without the tenant's word: {answer.why}",
            action="Release",
        )
        return LetGo(f"the tenant did not answer for {waited:.0f} s")

    async def _secret_is_gone(self, tenant: TenantCluster) -> bool:
        """Return whether a live read shows no kubeconfig; asked less often the longer it is."""
        uid, now = tenant.metadata.uid, self._clock.monotonic()
        times, due = self._secret_reads.get(uid, (0, now))
        if now < due:
            return False
        if await self._is_gone(tenant):
            self._secret_reads.pop(uid, None)
            return True
        pause = min(FIRST_PAUSE * 2 ** min(times, 10), LONGEST_PAUSE)
        self._secret_reads[uid] = (times + 1, now + pause)
        return False

    async def _is_gone(self, tenant: TenantCluster) -> bool:
        try:
            if tenant.status.tenantNamespace:
                await self._client.get(NAMESPACE, Key("", tenant.status.tenantNamespace))
            await self._tenants.kubeconfig(tenant)
        except NotFound as missing:
            return missing.reason == "NotFound"
        except NoWayIn as none:
            return none.absent
        return False

    async def _look(
        self, tenant: TenantCluster, allocation: IPAllocation, mark: int
    ) -> LetGo | Holding:
        """Read the tenant's pool and Services live."""
        given = ranges.held(allocation)
        if given is None:
            return LetGo("it holds no range")
        try:
            async with self._tenants.inside(tenant) as client:
                return await self._inspect(client, given, mark)
        except NoWayIn as none:
            return Holding(f"the tenant cannot be asked: {none.message}", answered=False)

    async def _inspect(self, client: Client, given: AddressRange, mark: int) -> LetGo | Holding:
        """Look at the pool, and after it at the Services: who had an address may still show it."""
        try:
            pool = await MetalLB(client, self._settings.metallb_namespace).pool()
        except Unavailable as missing:
            return LetGo(missing.message)
        user = await self._user(client, given.contains)
        if user is not None:
            shown = f"Service {user.metadata.key} still shows an address of the range"
            return Holding(shown, in_use=True)
        if pool is not None and basis_of(pool) < mark:
            return Holding("the tenant's MetalLB pool was not written since the deletion")
        if pool is not None and any(_touches(entry, given) for entry in pool.spec.addresses):
            return Holding("the tenant's MetalLB pool still has the range")
        return LetGo("the tenant's MetalLB pool and Services are free of it")

    async def _user(self, client: Client, ours: Callable[[AddressRange], bool]) -> Service | None:
        page = await client.list(SERVICE)
        if page.unreadable:
            raise MalformedAnswer(f"Services that cannot be read: {sorted(page.unreadable)}")
        known = (s for s in page.items if is_ours(s, self._settings.load_balancer_class))
        return next((s for s in known if any(map(ours, addresses(s)))), None)


def _anyway() -> LetGo:
    return LetGo(f"the TenantCluster carries {names.ANNOTATION_RELEASE_ANYWAY}")


def _touches(entry: str, given: AddressRange) -> bool:
    found = ranges.parsed_entry(entry)
    return found is None or found.overlaps(given)
