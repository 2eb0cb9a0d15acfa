"""What a live read says of owners: only that may cost an allocation its range."""

from dataclasses import dataclass, field

from controller.client import Client
from controller.errors import NotFound
from controller.meta import Key
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster


@dataclass(slots=True)
class Owners:
    """Reads owners live, each once: lives for one sweep.

    Args:
        client: for the reads.
    """

    client: Client
    _found: dict[Key, TenantCluster | None] = field(default_factory=dict)
    _served: bool | None = None

    async def find(self, key: Key) -> TenantCluster | None:
        """Return the TenantCluster; None if the server says that there is none.

        Raises:
            ControllerError: it could not be learnt. That includes a "not found" that is about the
                kind and not about the object: a CRD that is gone takes no ranges along.
        """
        if key not in self._found:
            self._found[key] = await self._read(key)
        return self._found[key]

    async def gone(self, key: Key, uid: str) -> bool:
        """Return whether the TenantCluster with this uid does not exist any more.

        Raises:
            ControllerError: it could not be learnt.
        """
        owner = await self.find(key)
        return owner is None or owner.metadata.uid != uid

    async def _read(self, key: Key) -> TenantCluster | None:
        try:
            return await self.client.get(TENANT_CLUSTER, key)
        except NotFound as missing:
            if missing.reason != "NotFound" or not await self._kind_is_served():
                raise
            return None

    async def _kind_is_served(self) -> bool:
        if self._served is None:
            self._served = await self.client.served(TENANT_CLUSTER)
        return self._served
