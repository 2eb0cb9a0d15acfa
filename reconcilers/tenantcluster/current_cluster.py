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
        self._own_version = tenant
        """The cluster as this pass read it or wrote it last."""

    @property
    def tenant(self) -> TenantCluster:
        """The newer one of two versions: the cached cluster, and the one this pass wrote last."""
        own = self._own_version
        cached = self._clusters.get(own.metadata.key)
        if cached is None or cached.metadata.uid != own.metadata.uid:
            # The cluster is gone, or recreated under its name: the pass ends on its own version.
            return own
        return cached if cached.metadata.revision > own.metadata.revision else own

    async def annotate(self, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of the cluster; None removes one.

        Raises:
            Conflict: the cluster changed, and the cache does not show that yet.
            ControllerError: the management cluster did not answer.
        """
        patch = {"metadata": {"annotations": dict(annotations)}}
        version = Version.from_object(self.tenant)
        self._own_version = await self._client.patch(TENANT_CLUSTER, version, patch)

    async def patch_status(self, base: TenantCluster, change: Mapping[str, Any]) -> None:
        """Change the status of the cluster.

        Args:
            base: the version of the cluster that the change was worked out from.
            change: the merge patch of the status.

        Raises:
            Conflict: the cluster changed after `base`.
            ControllerError: the management cluster did not answer.
        """
        self._own_version = await self._client.patch_status(TENANT_CLUSTER, base, dict(change))
