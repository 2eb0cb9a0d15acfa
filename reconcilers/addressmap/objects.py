"""All objects of a cluster that concern addresses, and reading them."""

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
from reconcilers.integrations.core.scopedlists import NotRead, ScopedLists, list_limits
from reconcilers.integrations.core.views import Views

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class PlatformDefault:
    """The ProviderConfig that ButlerConfig names for clusters that name none.

    Args:
        key: its namespace and name; None if ButlerConfig names none or was not read.
        unknown: why ButlerConfig could not be read; empty if it could.
    """

    key: Key | None = None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of our four kinds, and views of other platforms' kinds.

    Args:
        pools: the NetworkPools by namespace and name.
        allocations: the IPAllocations by namespace and name.
        clusters: the TenantClusters of all namespaces, because allocations refer across them.
        providers: the ProviderConfigs by namespace and name.
        unreadable: why an object could not be decoded, by its kind and key.
        refused: kind and key of unreadable objects that are in a file only: an API server rejects
            them, because their definition does not allow their content.
        live: whether the objects were read from a cluster; False if from files.
        owners_known: whether all clusters were read, so that a missing cluster is gone.
        integrations: pools and requests of other platforms. Addresses of NetworkPools that their
            requests hold count like allocations.
        not_read: the lists of our kinds that the user may not read.
        platform_default: the ProviderConfig that ButlerConfig names. Of the commands that read a
            cluster, only `explain` reads it.
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
        """The lists of all kinds that the user may not read; addresses held there look free."""
        return (*self.not_read, *self.integrations.not_read)

    def find_unread_lists(self, resource: Resource[Any], namespace: str = "") -> Sequence[NotRead]:
        """Return the lists of a kind that the user may not read; empty if all could be read.

        Args:
            resource: the kind.
            namespace: the namespace that must be known; empty for all namespaces.
        """
        return list_limits(namespace, {resource.full_name}, self.all_not_read)

    def may_exist(self, resource: Resource[Any], key: Key) -> bool:
        """Return whether an object may exist although it is not among the decoded objects.

        True if it could not be decoded, or if the user may not read the list of its kind.
        """
        is_unreadable = (resource.kind, key) in self.unreadable
        return is_unreadable or bool(self.find_unread_lists(resource, key.namespace))

    def find_unreadable(self, resource: Resource[Any]) -> dict[Key, str]:
        """Return why objects of a kind could not be decoded, by key."""
        return {
            key: reason for (kind, key), reason in self.unreadable.items() if kind == resource.kind
        }

    def select_namespace(self, namespace: str) -> "Objects":
        """Return the objects of a namespace, all TenantClusters, and the cluster-scoped pools.

        All TenantClusters are kept, because allocations refer to them across namespaces.

        Args:
            namespace: the namespace; empty for all.
        """
        if not namespace:
            return self

        def keep_namespace(objects: Mapping[Key, T]) -> dict[Key, T]:
            """Return the objects of the namespace."""
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
            integrations=self.integrations.select_namespaces({"", namespace}),
        )

    def select_tenants(self, namespace: str) -> "Objects":
        """Return all objects, with only the TenantClusters of a namespace; empty for all."""
        if not namespace:
            return self
        clusters = {
            key: cluster for key, cluster in self.clusters.items() if key.namespace == namespace
        }
        return replace(self, clusters=clusters)

    def group_by_tenant(self) -> list[tuple[TenantCluster, list[IPAllocation]]]:
        """Return each cluster with the allocations that name it, all by namespace and name."""
        allocations_by_tenant: dict[Key, list[IPAllocation]] = {
            key: [] for key in sorted(self.clusters)
        }
        for allocation in sort_by_key(self.allocations):
            # An allocation for a cluster that does not exist goes to a list that is dropped.
            allocations_by_tenant.get(allocation.spec.tenantClusterRef.key, []).append(allocation)
        return [(self.clusters[key], members) for key, members in allocations_by_tenant.items()]


REQUIRED: Sequence[Resource[Any]] = tuple(OWN_KINDS.values())


async def read_objects(
    client: Any, namespace: str = "", required: Sequence[Resource[Any]] = REQUIRED
) -> Objects:
    """Return all objects of our kinds and of the integrations that the user may read.

    Args:
        client: a `controller.client.Client`.
        namespace: the namespace to list if the user may not list a kind in all namespaces; empty
            for none.
        required: the kinds that must be readable. If another kind may not be read, its list is
            noted in `not_read`.

    Raises:
        ControllerError: the cluster did not answer, or a required kind may not be read.
    """
    # Imported here, because the import takes longer than many commands that do not need it.
    from reconcilers.integrations import views  # noqa: PLC0415
    from reconcilers.integrations.core.platforms import NetworkPools  # noqa: PLC0415

    unreadable: dict[tuple[str, Key], str] = {}
    lists = ScopedLists(client, namespace)

    async def list_kind(resource: Resource[T]) -> dict[Key, T]:
        """Return the objects of a kind, empty if it may not be read; note unreadable objects."""
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

    # Clusters are listed last. A cluster exists before its allocations, so no allocation looks
    # like an orphan because its cluster was created between two lists.
    allocations = await list_kind(IP_ALLOCATION)
    pools = await list_kind(NETWORK_POOL)
    providers = await list_kind(PROVIDER_CONFIG)
    not_read_before = len(lists.not_read)
    clusters = await list_kind(TENANT_CLUSTER)
    unreadable_pools = {key for kind, key in unreadable if kind == NETWORK_POOL.kind}
    network_pools = NetworkPools([*pools.values()], unreadable_pools, lists.not_read)
    integrations = await views.from_cluster(
        client, namespace, pools=network_pools, now=datetime.now(UTC)
    )
    return Objects(
        pools,
        allocations,
        clusters=clusters,
        providers=providers,
        unreadable=unreadable,
        owners_known=len(lists.not_read) == not_read_before,
        integrations=integrations,
        not_read=lists.not_read,
    )


def sort_by_key(objects: Mapping[Key, T]) -> list[T]:
    """Return objects in the order of namespace and name."""
    return [objects[key] for key in sorted(objects)]
