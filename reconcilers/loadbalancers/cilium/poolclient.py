"""Reads and writes CiliumLoadBalancerIPPools in the version that a tenant serves."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from controller.client import Client
from controller.errors import Conflict, MalformedAnswer, NotFound
from controller.meta import Key, Version
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.loadbalancers.cilium.pools import CILIUM_POOL, CILIUM_POOL_ALPHA, CiliumPool
from reconcilers.loadbalancers.port import BalancerBlocked

T = TypeVar("T")

NOT_INSTALLED = "CiliumNotInstalled"
"""The reason where the tenant positively does not serve Cilium's kinds."""
_MOST_ATTEMPTS = 5
"""How often one write is tried while nothing but the counts of its pool changes."""


@dataclass(slots=True)
class ServedVersion:
    """The version of the kind in one tenant that answered last."""

    resource: Resource[CiliumPool] = CILIUM_POOL


class PoolClient:
    """Reads and writes the pools of one tenant.

    Args:
        client: the client of the tenant.
        version: remembers which version of the kind the tenant serves.
    """

    def __init__(self, client: Client, version: ServedVersion) -> None:
        self._client = client
        self._version = version

    async def list(self, own_names: frozenset[str] = frozenset()) -> dict[str, CiliumPool]:
        """Return all pools that can be decoded, by name.

        Args:
            own_names: names of pools that are ours, all of which must be decoded.

        Raises:
            BalancerBlocked: the tenant positively does not serve the kind.
            ControllerError: the tenant did not answer, or a pool of ours cannot be decoded.
        """
        pools, unreadable = await self.list_readable()
        if own_unreadable := own_names & unreadable:
            raise MalformedAnswer(
                f"{CILIUM_POOL.kind}s that cannot be read: {sorted(own_unreadable)}"
            )
        return pools

    async def list_readable(self) -> tuple[dict[str, CiliumPool], frozenset[str]]:
        """Return the pools that can be decoded, by name, and the names of the unreadable pools.

        Raises:
            BalancerBlocked: the tenant positively does not serve the kind.
            ControllerError: the tenant did not answer.
        """
        try:
            page = await self._client.list(self._version.resource)
        except NotFound:
            # Cilium may have been upgraded or downgraded since the last read.
            await self._remember_version()
            page = await self._client.list(self._version.resource)
        unreadable = frozenset(key.name for key in page.unreadable)
        return {pool.metadata.name: pool for pool in page.items}, unreadable

    async def _remember_version(self) -> None:
        """Remember the version that the tenant serves, the newer one first.

        Raises:
            BalancerBlocked: the tenant serves neither version.
        """
        for resource in (CILIUM_POOL, CILIUM_POOL_ALPHA):
            if await self._client.is_served(resource):
                self._version.resource = resource
                return
        raise BalancerBlocked(
            NOT_INSTALLED,
            "Cilium's LB-IPAM is not installed in the tenant: cilium.io serves no"
            f" {CILIUM_POOL.kind}",
        ) from None

    async def create(
        self, name: str, annotations: Mapping[str, str], spec: Mapping[str, Any]
    ) -> CiliumPool:
        """Create a pool.

        Raises:
            Conflict: a pool of that name exists.
            ControllerError: the tenant did not answer.
        """
        metadata = {
            "name": name,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
            "annotations": dict(annotations),
        }
        return await self._client.create(
            self._version.resource,
            "",
            {"metadata": metadata, "spec": dict(spec)},
            field_manager=names.TENANT_FIELD_MANAGER,
        )

    async def patch(self, pool: CiliumPool, patch: Mapping[str, Any]) -> CiliumPool:
        """Patch a pool if it did not change since it was read; return it as the server stored it.

        Raises:
            Conflict: spec or metadata changed since the pool was read.
            ControllerError: the tenant did not answer.
        """

        async def send(version: Version) -> CiliumPool:
            """Patch the pool at a version of it."""
            return await self._client.patch(self._version.resource, version, patch)

        return await self._send(pool, send)

    async def delete(self, pool: CiliumPool) -> None:
        """Delete a pool if it did not change since it was read.

        Raises:
            Conflict: spec or metadata changed since the pool was read.
            ControllerError: the tenant did not answer.
        """

        async def send(version: Version) -> None:
            """Delete the pool at a version of it."""
            await self._client.delete(self._version.resource, version)

        await self._send(pool, send)

    async def _send(self, pool: CiliumPool, send: Callable[[Version], Awaitable[T]]) -> T:
        """Send a write of a pool; send it again if nothing but the counts of the pool changed.

        The operator writes counts whenever a Service is created or deleted. Each such write raises
        the resourceVersion, so the write would conflict again and again.
        """
        latest = pool
        for _ in range(_MOST_ATTEMPTS - 1):
            try:
                return await send(Version.from_object(latest))
            except Conflict:
                live = await self._client.find(self._version.resource, Key("", pool.metadata.name))
                if live is None or _list_judged_parts(live) != _list_judged_parts(pool):
                    raise
                latest = live
        # The last attempt: if it conflicts, too, the caller gets the Conflict.
        return await send(Version.from_object(latest))


def _list_judged_parts(pool: CiliumPool) -> object:
    """Return the parts of a pool that a decision relies on, apart from its counts."""
    meta = pool.metadata
    return (meta.uid, meta.generation, dict(meta.annotations), meta.is_terminating)
