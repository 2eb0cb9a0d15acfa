"""Objects of KKP on a server, as a test makes, changes and awaits them.

They are of the whole server, so each test has its own names: pools, clusters and datacenters.
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
class Lab:
    """The objects of one test.

    Args:
        admin: the administrator's client.
        prefix: what the names of its pools, clusters and datacenters begin with.
    """

    admin: httpx.AsyncClient
    prefix: str

    def name(self, name: str) -> str:
        """Return a name of this test's own."""
        return f"{self.prefix}-{name}"

    def namespace(self, cluster: str) -> str:
        """Return the namespace of a cluster."""
        return f"cluster-{self.name(cluster)}"

    def pools(self, name: str = "") -> str:
        """Return the path of a pool, or of all."""
        return f"{ROOT}/ipampools" + (f"/{self.name(name)}" if name else "")

    def clusters(self, name: str = "") -> str:
        """Return the path of a cluster, or of all."""
        return f"{ROOT}/clusters" + (f"/{self.name(name)}" if name else "")

    def allocation(self, cluster: str, pool: str) -> str:
        """Return the path of a cluster's allocation of a pool."""
        return f"{ROOT}/namespaces/{self.namespace(cluster)}/ipamallocations/{self.name(pool)}"

    async def post(self, path: str, body: Body) -> Body:
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
        """Merge a patch into an object."""
        headers = {"Content-Type": "application/merge-patch+json"}
        answer = await self.admin.patch(path, json=patch, headers=headers)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def delete(self, path: str) -> None:
        """Delete an object."""
        answer = await self.admin.delete(path)
        assert answer.status_code in {200, 202, 404}, answer.text

    def datacenters(self, **datacenters: Body) -> Body:
        """Return the spec of a pool with these datacenters."""
        return {
            "datacenters": {
                self.name(name): datacenter for name, datacenter in datacenters.items()
            }
        }

    async def pool(self, name: str, **datacenters: Body) -> Body:
        """Create a pool."""
        spec = self.datacenters(**datacenters)
        meta = {"name": self.name(name)}
        body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMPool", "spec": spec}
        return await self.post(self.pools(), {**body, "metadata": meta})

    async def cluster(
        self, name: str, dc: str = "dc", *, namespace: bool = True, **more: Any
    ) -> Body:
        """Create a cluster with its namespace; `labels` are metadata, the rest is spec."""
        labels = more.pop("labels", {})
        body = {
            "apiVersion": "kubermatic.k8c.io/v1",
            "kind": "Cluster",
            "metadata": {"name": self.name(name), "labels": labels},
            "spec": {"cloud": {"dc": self.name(dc), "providerName": "fake"}, **more},
        }
        created = await self.post(self.clusters(), body)
        return await self.with_namespace(name) if namespace else created

    async def with_namespace(self, name: str) -> Body:
        """Make the namespace of a cluster and write it to the status, as KKP does."""
        await self.post_namespace(name)
        status = {"status": {"namespaceName": self.namespace(name)}}
        return await self.patch(f"{self.clusters(name)}/status", status)

    async def post_namespace(self, name: str) -> None:
        """Make the namespace of a cluster."""
        meta = {"name": self.namespace(name)}
        await self.post(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        )

    async def allocate(self, cluster: str, pool: str, **spec: Any) -> Body:
        """Create an allocation by hand, in the namespace of a cluster that need not exist."""
        path = self.allocation(cluster, pool).rpartition("/")[0]
        spec["dc"] = self.name(spec.get("dc", "dc"))
        meta = {"name": self.name(pool)}
        body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMAllocation"}
        return await self.post(path, {**body, "metadata": meta, "spec": spec})

    async def until(
        self, path: str, holds: Callable[[Body], bool], seconds: float = SECONDS
    ) -> Body:
        """Wait until an object is there and as it should be; return it."""
        body = await until(
            lambda: self.find(path),
            lambda condition: condition is not None and holds(condition),
            seconds=seconds,
        )
        assert body is not None
        return body

    async def wait_until_gone(self, path: str) -> None:
        """Wait until an object is gone."""
        await until(lambda: self.find(path), lambda condition: condition is None)

    async def has(self, cluster: str, pool: str, *expected: str) -> Body:
        """Wait until a cluster has exactly these ranges, or this prefix, of a pool."""

        def holds(body: Body) -> bool:
            spec = body["spec"]
            return expected == (
                (spec["cidr"],) if "cidr" in spec else tuple(spec.get("addresses", ()))
            )

        return await self.until(self.allocation(cluster, pool), holds)

    async def says(self, cluster: str, status: str, reason: str) -> str:
        """Wait until the condition of a cluster has status and reason; return its message."""

        def holds(body: Body) -> bool:
            reconciled = condition(body)
            return (reconciled.get("status"), reconciled.get("reason")) == (status, reason)

        return str(condition(await self.until(self.clusters(cluster), holds))["message"])

    async def events(
        self, kind: str, name: str, reason: str, holds: Callable[[list[str]], bool] = bool
    ) -> list[str]:
        """Wait until there are events of a reason on an object; return their notes."""

        async def look() -> list[str]:
            answer = await self.admin.get("/apis/events.k8s.io/v1/events")
            assert answer.status_code == 200, answer.text
            return [
                event["note"]
                for event in answer.json()["items"]
                if event["reason"] == reason
                and event["regarding"]["kind"] == kind
                and event["regarding"]["name"] == self.name(name)
            ]

        return await until(look, holds)

    async def until_event(self, kind: str, name: str, reason: str, content: str) -> None:
        """Wait until an event on an object has a text in its note."""
        await self.events(
            kind, name, reason=reason, holds=lambda notes: any(content in note for note in notes)
        )


def condition(body: Body | None) -> Body:
    """Return the condition of a cluster; empty if it has none."""
    conditions = ((body or {}).get("status") or {}).get("conditions") or {}
    return dict(conditions.get(CONDITION, {}))


def ranges(cidr: str, size: int, *excluded: str) -> Body:
    """Return the settings of a datacenter that hands out ranges."""
    body: Body = {"type": "range", "poolCidr": cidr, "allocationRange": size}
    return {**body, **({"excludeRanges": list(excluded)} if excluded else {})}


def prefixes(cidr: str, length: int, *excluded: str) -> Body:
    """Return the settings of a datacenter that hands out prefixes."""
    body: Body = {"type": "prefix", "poolCidr": cidr, "allocationPrefix": length}
    return {**body, **({"excludePrefixes": list(excluded)} if excluded else {})}
