"""The objects that questions about addresses are asked about, and reading all of a cluster's."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    OWN_KINDS,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.integrations.core.scopedlists import NotRead, ScopedLists, limits_in
from reconcilers.integrations.core.views import Views

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class PlatformDefault:
    """The ProviderConfig of clusters that name none, as ButlerConfig says.

    Args:
        key: its namespace and name; None if ButlerConfig names none, or was not read.
        unknown: why it is not known; empty if it is.
    """

    key: Key | None = None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Objects:
    """Everything of ours that there is.

    Args:
        pools: by namespace and name.
        allocations: the same.
        clusters: the same; of all namespaces, as allocations refer across them.
        providers: the same.
        unreadable: objects that could not be decoded, by kind and key, with the reason.
        refused: kind and key of those of them that are no stored objects: an API server refuses
            them, as their definition does not allow what they say.
        live: whether they were read from a cluster.
        owners_known: whether all clusters were read, so that one that is missing is gone.
        integrations: what there is of other platforms' kinds; what requests of theirs hold of
            NetworkPools counts like allocations.
        not_read: what of ours the user may not read: kinds of other namespaces.
        platform_default: the ProviderConfig that ButlerConfig names; from a cluster, `explain`
            alone reads it.
    """

    pools: Mapping[Key, NetworkPool]
    allocations: Mapping[Key, IPAllocation]
    clusters: Mapping[Key, TenantCluster]
    providers: Mapping[Key, ProviderConfig]
    unreadable: Mapping[tuple[str, Key], str] = field(default_factory=dict)
    refused: Collection[tuple[str, Key]] = frozenset()
    live: bool = True
    owners_known: bool = True
    integrations: Views = field(default_factory=Views)
    not_read: Sequence[NotRead] = ()
    platform_default: PlatformDefault = PlatformDefault()

    @property
    def all_not_read(self) -> Sequence[NotRead]:
        """What the user may not read, of all kinds: what it holds looks free."""
        return (*self.not_read, *self.integrations.not_read)

    def limits_of(self, resource: Resource[Any], namespace: str = "") -> Sequence[NotRead]:
        """Return the lists of a kind that the user may not read.

        Args:
            resource: the kind.
            namespace: the namespace; empty for all.
        """
        return limits_in(namespace, {resource.full_name}, self.all_not_read)

    def may_exist(self, resource: Resource[Any], key: Key) -> bool:
        """Return whether an object may be there though it was not read.

        It cannot be decoded, or the user may not read it.
        """
        is_unreadable = (resource.kind, key) in self.unreadable
        return is_unreadable or bool(self.limits_of(resource, key.namespace))

    def unreadable_of(self, resource: Resource[Any]) -> dict[Key, str]:
        """Return the objects of a kind that could not be decoded, with the reason."""
        return {
            key: reason for (kind, key), reason in self.unreadable.items() if kind == resource.kind
        }

    def within(self, namespace: str) -> "Objects":
        """Return the objects of a namespace, with all TenantClusters and the cluster-scoped pools.

        Allocations refer to TenantClusters across namespaces.

        Args:
            namespace: which; empty for all.
        """
        if not namespace:
            return self

        def keep_namespace(objects: Mapping[Key, T]) -> dict[Key, T]:
            return {key: obj for key, obj in objects.items() if key.namespace == namespace}

        return replace(
            self,
            pools=keep_namespace(self.pools),
            allocations=keep_namespace(self.allocations),
            providers=keep_namespace(self.providers),
            unreadable={
                (kind, key): reason
                for (kind, key), reason in self.unreadable.items()
                if key.namespace in {"", namespace}
            },
            integrations=self.integrations.within({"", namespace}),
        )

    def of_tenants(self, namespace: str) -> "Objects":
        """Return the same with the TenantClusters of one namespace; empty for all."""
        if not namespace:
            return self
        clusters = {
            key: cluster for key, cluster in self.clusters.items() if key.namespace == namespace
        }
        return replace(self, clusters=clusters)

    def by_tenant(self) -> list[tuple[TenantCluster, list[IPAllocation]]]:
        """Return each tenant with the allocations for it, all by namespace and name."""
        allocations_by_tenant: dict[Key, list[IPAllocation]] = {
            key: [] for key in sorted(self.clusters)
        }
        for allocation in sorted_by_key(self.allocations):
            allocations_by_tenant.get(allocation.spec.tenantClusterRef.key, []).append(allocation)
        return [(self.clusters[key], members) for key, members in allocations_by_tenant.items()]


REQUIRED: Sequence[Resource[Any]] = tuple(OWN_KINDS.values())


async def read_objects(
    client: Any, namespace: str = "", required: Sequence[Resource[Any]] = REQUIRED
) -> Objects:
    """Read all objects of ours over a client, as far as the user may read them.

    Args:
        client: a `controller.client.Client`.
        namespace: of a kind that may not be read everywhere, read this one only; empty for none.
        required: the kinds without which there is no answer; others that may not be read are
            noted in `not_read`.

    Raises:
        ControllerError: the cluster did not answer, or refused.
    """
    # Here, as it loads pydantic, which takes longer than many a question.
    from reconcilers.integrations import views  # noqa: PLC0415 - only who reads needs it
    from reconcilers.integrations.core.platforms import NetworkPools  # noqa: PLC0415

    unreadable: dict[tuple[str, Key], str] = {}
    lists = ScopedLists(client, namespace)

    async def list_kind(resource: Resource[T]) -> dict[Key, T]:
        if resource in required:
            page = await lists.list_required(resource)
        else:
            allowed = await lists.list_allowed(resource)
            if allowed is None:
                return {}
            page = allowed
        for key, reason in page.unreadable.items():
            unreadable[resource.kind, key] = reason
        return {item.metadata.key: item for item in page.items}

    # Clusters last: the owner of an allocation was there before it, so none looks like an orphan
    # only because its owner was created while we read.
    allocations = await list_kind(IP_ALLOCATION)
    pools = await list_kind(NETWORK_POOL)
    providers = await list_kind(PROVIDER_CONFIG)
    before = len(lists.not_read)
    clusters = await list_kind(TENANT_CLUSTER)
    of_pools = {key for kind, key in unreadable if kind == NETWORK_POOL.kind}
    network_pools = NetworkPools([*pools.values()], of_pools, lists.not_read)
    integrations = await views.from_cluster(
        client, namespace, pools=network_pools, now=datetime.now(UTC)
    )
    return Objects(
        pools,
        allocations,
        clusters=clusters,
        providers=providers,
        unreadable=unreadable,
        owners_known=len(lists.not_read) == before,
        integrations=integrations,
        not_read=lists.not_read,
    )


def sorted_by_key(objects: Mapping[Key, T]) -> list[T]:
    """Return objects by namespace and name."""
    return [objects[key] for key in sorted(objects)]
