"""Objects of Cluster API on a server, as a test creates, changes and waits for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.polling import SECONDS, until

IPAM = "ipam.cluster.x-k8s.io"
PATHS = {
    "IPAddressClaim": f"{IPAM}/v1beta2/ipaddressclaims",
    "IPAddress": f"{IPAM}/v1beta2/ipaddresses",
    "InClusterIPPool": f"{IPAM}/v1alpha2/inclusterippools",
    "GlobalInClusterIPPool": f"{IPAM}/v1alpha2/globalinclusterippools",
    "InClusterPrefixPool": f"{IPAM}/v1alpha2/inclusterprefixpools",
    "GlobalInClusterPrefixPool": f"{IPAM}/v1alpha2/globalinclusterprefixpools",
    "Cluster": "cluster.x-k8s.io/v1beta2/clusters",
    "NetworkPool": "butler.butlerlabs.dev/v1alpha1/networkpools",
    "IPAllocation": "butler.butlerlabs.dev/v1alpha1/ipallocations",
}
Body = dict[str, Any]
PAUSED = {"cluster.x-k8s.io/paused": "true"}
CLAIM_FINALIZER = f"{IPAM}/ReleaseAddress"
ADDRESS_FINALIZER = f"{IPAM}/ProtectAddress"


def get_status(body: Body | None) -> Body:
    """Return an object's status; empty while nobody has written one."""
    return (body or {}).get("status") or {}


def find_condition(body: Body | None, kind: str = "Ready") -> Body:
    """Return a condition of an object's status; empty if it has none of that kind."""
    conditions = get_status(body).get("conditions") or []
    return next((entry for entry in conditions if entry["type"] == kind), {})


def get_reason(body: Body | None) -> str:
    """Return the reason of an object's Ready condition, empty if it has none."""
    return str(find_condition(body).get("reason", ""))


def make_address_spec(claim: str, pool: str, address: str, **settings: Any) -> Body:
    """Return the spec of an IPAddress of an InClusterIPPool.

    Args:
        claim: the name of its claim.
        pool: the name of its pool.
        settings: further fields, or others in place of those here.
    """
    reference = {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": pool}
    spec = {"claimRef": {"name": claim}, "poolRef": reference, "address": address, "prefix": 24}
    return spec | settings


@dataclass
class ClusterApiLab:
    """A namespace of a server; the methods create, read and wait for objects in it.

    Args:
        admin: the administrator's client.
    """

    admin: httpx.AsyncClient
    namespace: str

    def build_path(self, kind: str, name: str = "", namespace: str | None = None) -> str:
        """Return the URL path of an object, or of the collection of a kind if `name` is empty."""
        version, _, plural = PATHS[kind].rpartition("/")
        within = "" if kind.startswith("Global") else f"/namespaces/{namespace or self.namespace}"
        return f"/apis/{version}{within}/{plural}" + (f"/{name}" if name else "")

    async def create(self, kind: str, name: str, spec: Body, **metadata: Any) -> Body:
        """Create an object."""
        version = PATHS[kind].rpartition("/")[0]
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        namespace = metadata.get("namespace")
        body["metadata"] = {"name": name, **metadata}
        answer = await self.admin.post(self.build_path(kind, namespace=namespace), json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def find(self, kind: str, name: str, namespace: str | None = None) -> Body | None:
        """Return an object, None if there is none."""
        answer = await self.admin.get(self.build_path(kind, name, namespace))
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def list_objects(self, kind: str) -> list[Body]:
        """Return all objects of a kind in the namespace."""
        answer = await self.admin.get(self.build_path(kind))
        assert answer.status_code == 200, answer.text
        return list(answer.json()["items"])

    async def patch(
        self, kind: str, name: str, patch: Mapping[str, Any], subresource: str = ""
    ) -> Body:
        """Apply a merge patch to an object, or to a subresource of it; return the object."""
        answer = await self.admin.patch(
            self.build_path(kind, name) + (f"/{subresource}" if subresource else ""),
            json=patch,
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        answer = await self.admin.delete(self.build_path(kind, name))
        assert answer.status_code in {200, 202, 404}, answer.text

    async def until(
        self, kind: str, name: str, holds: Callable[[Body], bool], seconds: float = SECONDS
    ) -> Body:
        """Wait until an object exists and `holds` is true of it; return the object."""
        body = await until(
            lambda: self.find(kind, name),
            lambda body: body is not None and holds(body),
            seconds=seconds,
        )
        assert body is not None
        return body

    async def wait_until_gone(self, kind: str, name: str, seconds: float = SECONDS) -> None:
        """Wait until an object is gone."""
        await until(lambda: self.find(kind, name), lambda body: body is None, seconds=seconds)

    async def create_pool(
        self, name: str, *addresses: str, kind: str = "InClusterIPPool", **spec: Any
    ) -> Body:
        """Create a pool of addresses; `spec` has further fields of its spec."""
        return await self.create(kind, name, {"addresses": list(addresses), "prefix": 24, **spec})

    async def create_claim(
        self,
        name: str,
        pool: str,
        kind: str = "InClusterIPPool",
        *,
        cluster: str = "",
        **metadata: Any,
    ) -> Body:
        """Create a claim on a pool.

        Args:
            name: of the claim.
            pool: the name of the pool.
            kind: of the pool.
            cluster: the name of the Cluster that the claim belongs to; empty for none.
            metadata: further fields of the claim's metadata.
        """
        group = PATHS[kind].partition("/")[0]
        spec: Body = {"poolRef": {"apiGroup": group, "kind": kind, "name": pool}}
        if cluster:
            spec["clusterName"] = cluster
        return await self.create("IPAddressClaim", name, spec, **metadata)

    async def wait_until_served(self, name: str) -> str:
        """Wait until a claim has its address; return the address."""
        claim = await self.until(
            "IPAddressClaim", name, lambda claim: bool(get_status(claim).get("addressRef"))
        )
        address = await self.find("IPAddress", claim["status"]["addressRef"]["name"])
        assert address is not None, "an addressRef leads to an IPAddress"
        return str(address["spec"]["address"])

    async def wait_for_reason(self, name: str, reason: str) -> Body:
        """Wait until the Ready condition of a claim has a reason; return the claim."""
        return await self.until("IPAddressClaim", name, lambda claim: get_reason(claim) == reason)

    async def wait_until_settled(self, pool: str = "beacon") -> None:
        """Wait until the controllers have processed all objects that were created before.

        They have once a claim that is created now, on a pool of its own, is served.

        Args:
            pool: what the name of that pool begins with.
        """
        name = f"{pool}-{await self._count_pools(pool)}"
        await self.create_pool(name, "10.255.0.0/24")
        await self.create_claim(name, name)
        await self.wait_until_served(name)

    async def _count_pools(self, prefix: str) -> int:
        """Return the number of InClusterIPPools whose name begins with a prefix."""
        pools = await self.list_objects("InClusterIPPool")
        return sum(pool["metadata"]["name"].startswith(prefix) for pool in pools)

    async def wait_for_counts(
        self,
        pool: str,
        *,
        total: int,
        used: int,
        free: int,
        out_of_range: int,
        kind: str = "InClusterIPPool",
    ) -> None:
        """Wait until the status of a pool counts its addresses like this."""
        counts = {"total": total, "used": used, "free": free, "outOfRange": out_of_range}
        await self.until(kind, pool, lambda body: get_status(body).get("ipAddresses") == counts)
