"""Objects of KKP on a server, as a test creates, changes and waits for them.

They are cluster-scoped, so pools, clusters and datacenters have a prefix for each test.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.polling import SECONDS, until

Body = dict[str, Any]
ROOT = "/apis/kubermatic.k8c.io/v1"
CONDITION = "IPAMControllerReconciledSuccessfully"


@dataclass
class KubermaticLab:
    """The objects of one test; the methods create, read and wait for them.

    Args:
        admin: the administrator's client.
        prefix: what the names of its pools, clusters and datacenters begin with.
    """

    admin: httpx.AsyncClient
    prefix: str

    def name(self, name: str) -> str:
        """Return a name with the prefix of this test."""
        return f"{self.prefix}-{name}"

    def namespace(self, cluster: str) -> str:
        """Return the namespace of a cluster."""
        return f"cluster-{self.name(cluster)}"

    def build_pool_path(self, name: str = "") -> str:
        """Return the URL path of a pool, or of all pools if `name` is empty."""
        return f"{ROOT}/ipampools" + (f"/{self.name(name)}" if name else "")

    def build_cluster_path(self, name: str = "") -> str:
        """Return the URL path of a cluster, or of all clusters if `name` is empty."""
        return f"{ROOT}/clusters" + (f"/{self.name(name)}" if name else "")

    def build_allocation_path(self, cluster: str, pool: str) -> str:
        """Return the URL path of the allocation of a pool to a cluster."""
        return f"{ROOT}/namespaces/{self.namespace(cluster)}/ipamallocations/{self.name(pool)}"

    async def create(self, path: str, body: Body) -> Body:
        """Create an object."""
        answer = await self.admin.post(path, json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def find(self, path: str) -> Body | None:
        """Return an object, None if there is none."""
        answer = await self.admin.get(path)
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def patch(self, path: str, patch: Mapping[str, Any]) -> Body:
        """Apply a merge patch to an object; return the object."""
        headers = {"Content-Type": "application/merge-patch+json"}
        answer = await self.admin.patch(path, json=patch, headers=headers)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def delete(self, path: str) -> None:
        """Delete an object."""
        answer = await self.admin.delete(path)
        assert answer.status_code in {200, 202, 404}, answer.text

    def make_pool_spec(self, **datacenters: Body) -> Body:
        """Return the spec of a pool with these datacenters, whose names get the prefix."""
        return {
            "datacenters": {
                self.name(name): datacenter for name, datacenter in datacenters.items()
            }
        }

    async def create_pool(self, name: str, **datacenters: Body) -> Body:
        """Create a pool with the settings of these datacenters."""
        spec = self.make_pool_spec(**datacenters)
        meta = {"name": self.name(name)}
        body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMPool", "spec": spec}
        return await self.create(self.build_pool_path(), {**body, "metadata": meta})

    async def create_cluster(
        self,
        name: str,
        dc: str = "dc",
        *,
        namespace: bool = True,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Body:
        """Create a cluster in a datacenter.

        Args:
            name: without the prefix.
            dc: the datacenter, without the prefix.
            namespace: create the namespace of the cluster, too.
            labels: of the cluster.
            spec: further fields of the spec.
        """
        body = {
            "apiVersion": "kubermatic.k8c.io/v1",
            "kind": "Cluster",
            "metadata": {"name": self.name(name), "labels": labels or {}},
            "spec": {"cloud": {"dc": self.name(dc), "providerName": "fake"}, **spec},
        }
        created = await self.create(self.build_cluster_path(), body)
        return await self.create_reported_namespace(name) if namespace else created

    async def create_reported_namespace(self, name: str) -> Body:
        """Create the namespace of a cluster and write its name to the status, as KKP does."""
        await self.create_namespace(name)
        status = {"status": {"namespaceName": self.namespace(name)}}
        return await self.patch(f"{self.build_cluster_path(name)}/status", status)

    async def create_namespace(self, name: str) -> None:
        """Create the namespace of a cluster, without a word of it in the cluster's status."""
        meta = {"name": self.namespace(name)}
        await self.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        )

    async def create_allocation(self, cluster: str, pool: str, **spec: Any) -> Body:
        """Create an allocation as a person does; the cluster need not exist, but its namespace."""
        path = self.build_allocation_path(cluster, pool).rpartition("/")[0]
        spec["dc"] = self.name(spec.get("dc", "dc"))
        meta = {"name": self.name(pool)}
        body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMAllocation"}
        return await self.create(path, {**body, "metadata": meta, "spec": spec})

    async def until(
        self, path: str, holds: Callable[[Body], bool], seconds: float = SECONDS
    ) -> Body:
        """Wait until an object exists and `holds` is true of it; return the object."""
        body = await until(
            lambda: self.find(path),
            lambda body: body is not None and holds(body),
            seconds=seconds,
        )
        assert body is not None
        return body

    async def wait_until_gone(self, path: str) -> None:
        """Wait until an object is gone."""
        await until(lambda: self.find(path), lambda body: body is None)

    async def wait_for_ranges(self, cluster: str, pool: str, *expected: str) -> Body:
        """Wait until a cluster's allocation of a pool has exactly these ranges, or this prefix.

        Returns:
            The allocation.
        """

        def holds(body: Body) -> bool:
            spec = body["spec"]
            return expected == (
                (spec["cidr"],) if "cidr" in spec else tuple(spec.get("addresses", ()))
            )

        return await self.until(self.build_allocation_path(cluster, pool), holds)

    async def wait_for_condition(self, cluster: str, status: str, reason: str) -> str:
        """Wait until a cluster's IPAM condition has a status and a reason; return its message."""

        def holds(body: Body) -> bool:
            reconciled = find_condition(body)
            return (reconciled.get("status"), reconciled.get("reason")) == (status, reason)

        return str(
            find_condition(await self.until(self.build_cluster_path(cluster), holds))["message"]
        )

    async def wait_for_events(
        self, kind: str, name: str, reason: str, holds: Callable[[list[str]], bool] = bool
    ) -> list[str]:
        """Wait until `holds` is true of the notes of an object's events of a reason.

        Returns:
            The notes.
        """

        async def list_notes() -> list[str]:
            answer = await self.admin.get("/apis/events.k8s.io/v1/events")
            assert answer.status_code == 200, answer.text
            return [
                event["note"]
                for event in answer.json()["items"]
                if event["reason"] == reason
                and event["regarding"]["kind"] == kind
                and event["regarding"]["name"] == self.name(name)
            ]

        return await until(list_notes, holds)

    async def wait_for_event(self, kind: str, name: str, reason: str, content: str) -> None:
        """Wait until an event about an object has a text in its note."""
        await self.wait_for_events(
            kind, name, reason=reason, holds=lambda notes: any(content in note for note in notes)
        )


def find_condition(body: Body | None) -> Body:
    """Return the condition of a cluster about IPAM; empty if it has none."""
    conditions = ((body or {}).get("status") or {}).get("conditions") or {}
    return dict(conditions.get(CONDITION, {}))


def make_range_settings(cidr: str, size: int, *excluded: str) -> Body:
    """Return a datacenter's settings in a pool that hands out ranges.

    Args:
        cidr: of the pool.
        size: the number of addresses for each cluster.
        excluded: ranges that are not handed out.
    """
    body: Body = {"type": "range", "poolCidr": cidr, "allocationRange": size}
    return {**body, **({"excludeRanges": list(excluded)} if excluded else {})}


def make_prefix_settings(cidr: str, length: int, *excluded: str) -> Body:
    """Return a datacenter's settings in a pool that hands out prefixes.

    Args:
        cidr: of the pool.
        length: the prefix length for each cluster.
        excluded: prefixes that are not handed out.
    """
    body: Body = {"type": "prefix", "poolCidr": cidr, "allocationPrefix": length}
    return {**body, **({"excludePrefixes": list(excluded)} if excluded else {})}
