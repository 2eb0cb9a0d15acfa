"""Objects of Cluster API's contract on a server, as a test makes, changes and awaits them."""

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


def status(body: Body | None) -> Body:
    """Return an object's status; empty while nobody has written one."""
    return (body or {}).get("status") or {}


def condition(body: Body | None, kind: str = "Ready") -> Body:
    """Return a condition of an object's status; empty if it has none of that kind."""
    conditions = status(body).get("conditions") or []
    return next((entry for entry in conditions if entry["type"] == kind), {})


def reason(body: Body | None) -> str:
    """Return the reason of an object's Ready condition, empty if it has none."""
    return str(condition(body).get("reason", ""))


@dataclass
class Lab:
    """One namespace of a server, and the objects in it.

    Args:
        admin: the administrator's client.
    """

    admin: httpx.AsyncClient
    namespace: str

    def path(self, kind: str, name: str = "", namespace: str | None = None) -> str:
        """Return the path of an object, or of all of a kind."""
        version, _, plural = PATHS[kind].rpartition("/")
        within = "" if kind.startswith("Global") else f"/namespaces/{namespace or self.namespace}"
        return f"/apis/{version}{within}/{plural}" + (f"/{name}" if name else "")

    async def create(self, kind: str, name: str, spec: Body, **metadata: Any) -> Body:
        """Create an object."""
        version = PATHS[kind].rpartition("/")[0]
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        namespace = metadata.get("namespace")
        body["metadata"] = {"name": name, **metadata}
        answer = await self.admin.post(self.path(kind, namespace=namespace), json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def find(self, kind: str, name: str, namespace: str | None = None) -> Body | None:
        """Return an object, None if there is none."""
        answer = await self.admin.get(self.path(kind, name, namespace))
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def items(self, kind: str) -> list[Body]:
        """Return all objects of a kind in the namespace."""
        answer = await self.admin.get(self.path(kind))
        assert answer.status_code == 200, answer.text
        return list(answer.json()["items"])

    async def patch(self, kind: str, name: str, patch: Mapping[str, Any], sub: str = "") -> Body:
        """Merge a patch into an object."""
        answer = await self.admin.patch(
            self.path(kind, name) + (f"/{sub}" if sub else ""),
            json=patch,
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        answer = await self.admin.delete(self.path(kind, name))
        assert answer.status_code in {200, 202, 404}, answer.text

    async def until(
        self, kind: str, name: str, holds: Callable[[Body], bool], seconds: float = SECONDS
    ) -> Body:
        """Wait until an object is there and as it should be; return it."""

        async def look() -> Body | None:
            return await self.find(kind, name)

        body = await until(look, lambda look: look is not None and holds(look), seconds=seconds)
        assert body is not None
        return body

    async def wait_until_gone(self, kind: str, name: str, seconds: float = SECONDS) -> None:
        """Wait until an object is gone."""

        async def look() -> Body | None:
            return await self.find(kind, name)

        await until(look, lambda look: look is None, seconds=seconds)

    async def pool(
        self, name: str, *addresses: str, kind: str = "InClusterIPPool", **spec: Any
    ) -> Body:
        """Create a pool of addresses."""
        return await self.create(kind, name, {"addresses": list(addresses), "prefix": 24, **spec})

    async def claim(
        self, name: str, pool: str, kind: str = "InClusterIPPool", **more: Any
    ) -> Body:
        """Create a claim; `cluster` names its Cluster, the rest is metadata."""
        group = PATHS[kind].partition("/")[0]
        spec: Body = {"poolRef": {"apiGroup": group, "kind": kind, "name": pool}}
        if cluster := more.pop("cluster", None):
            spec["clusterName"] = cluster
        return await self.create("IPAddressClaim", name, spec, **more)

    async def wait_until_served(self, name: str) -> str:
        """Wait until a claim has its address; return the address."""
        claim = await self.until(
            "IPAddressClaim", name, lambda claim: bool(status(claim).get("addressRef"))
        )
        address = await self.find("IPAddress", claim["status"]["addressRef"]["name"])
        assert address is not None, "an addressRef leads to an IPAddress"
        return str(address["spec"]["address"])

    async def says(self, name: str, why: str) -> Body:
        """Wait until a claim's Ready condition has a reason."""
        return await self.until("IPAddressClaim", name, lambda claim: reason(claim) == why)

    async def wait_until_settled(self, pool: str = "beacon") -> None:
        """Return once the product has looked at everything that was made before this call.

        It has when a claim that was made after all that, of a pool of its own, was served.
        """
        name = f"{pool}-{await self._count(pool)}"
        await self.pool(name, "10.255.0.0/24")
        await self.claim(name, name)
        await self.wait_until_served(name)

    async def _count(self, pool: str) -> int:
        pools = await self.items("InClusterIPPool")
        return sum(item["metadata"]["name"].startswith(pool) for item in pools)

    async def counts(
        self, pool: str, expected: tuple[int, int, int, int], kind: str = "InClusterIPPool"
    ) -> None:
        """Wait until a pool counts total, used, free, outOfRange so."""
        names = ("total", "used", "free", "outOfRange")
        expected_counts = dict(zip(names, expected, strict=True))

        def holds(body: Body) -> bool:
            return (body.get("status") or {}).get("ipAddresses") == expected_counts

        await self.until(kind, pool, holds)
