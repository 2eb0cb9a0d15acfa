"""A TenantCluster as the present pass has left it.

The steps of a pass read the cluster here, and annotate it and write its status through this object
alone. So no step works from a version that is older than the pass's own last write. What other
controllers have written meanwhile is seen, too. Otherwise a pass that waits for a slow tenant
would end in a conflict whenever another controller writes the cluster.
"""

from collections.abc import Mapping
from typing import Any

from controller.cache import Cache
from controller.client import Client
from controller.meta import Version
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster


class CurrentCluster:
    """The TenantCluster of one pass.

    Args:
        client: the management cluster.
        tenant: the cluster as the pass read it.
    """

    def __init__(
        self, client: Client, clusters: Cache[TenantCluster], tenant: TenantCluster
    ) -> None:
        self._client = client
        self._clusters = clusters
        self._last = tenant

    @property
    def tenant(self) -> TenantCluster:
        """The cluster as it was read or written last, or as the cache shows it if that is newer.

        A cluster that was recreated under the name meanwhile is another one.
        """
        last, cached = self._last.metadata, self._clusters.get(self._last.metadata.key)
        if cached is None or cached.metadata.uid != last.uid:
            return self._last
        return cached if cached.metadata.revision > last.revision else self._last

    async def annotate(self, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of the cluster; None removes one.

        Raises:
            Conflict: the cluster changed, and the cache does not show that yet.
            ControllerError: the management cluster did not answer.
        """
        patch = {"metadata": {"annotations": dict(annotations)}}
        version = Version.from_object(self.tenant)
        self._last = await self._client.patch(TENANT_CLUSTER, version, patch)

    async def patch_status(self, before: TenantCluster, change: Mapping[str, Any]) -> None:
        """Change the status of the cluster.

        Args:
            before: the version of the cluster that the change was worked out from.
            change: the merge patch of the status.

        Raises:
            Conflict: the cluster changed since.
            ControllerError: the management cluster did not answer.
        """
        self._last = await self._client.patch_status(TENANT_CLUSTER, before, dict(change))
