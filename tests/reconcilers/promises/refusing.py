"""Pools of each kind, of which the API server refuses writes for as long as a test says.

To *keep* a promise is to write the promised range to the request, or to create the object that
gives the range to it. To *void* a promise is to write the request so that it gets another
resourceVersion, after which the promise cannot be kept. docs/design/promises.md has the protocol.

The requests whose writes are refused are *greedy*: their names begin with `greedy`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from typing_extensions import override

from controller.errors import ApiError, Forbidden
from controller.resource import Resource
from controller.testing import FakeApi, Request
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API, KUBERMATIC, VITISTACK
from reconcilers.configuration.settings import Settings, VitistackSettings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.vitistack import api as vitistack
from reconcilers.promises.journal import ANNOTATION
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster, open_platform_cluster
from tests.reconcilers.test_sharing import NAMESPACE

CLAIMS, ADDRESSES, CLUSTERS = (
    clusterapi.get_claim_kind("v1beta2"),
    clusterapi.get_address_kind("v1beta2"),
    clusterapi.get_cluster_kind("v1beta2"),
)
GREEDY = "greedy"
"""What the names of greedy requests begin with."""
REFUSAL = "exceeded quota: greedy has 0 of 0"
"""The message by which the API server refuses a write."""


@dataclass(frozen=True)
class SentWrite:
    """A write that reaches the API server."""

    method: str
    kind: str
    namespace: str
    name: str
    body: Json

    @property
    def status(self) -> Json:
        """The fields of the status that it writes."""
        return dict(self.body.get("status") or {})


@dataclass
class Gate:
    """Refuses some writes to the API server, and keeps all in lists.

    Args:
        refuses: returns whether a write is refused.
        error: the answer to refused writes.
        accepted: the writes that were not refused.
        refused: the writes that were refused.
    """

    refuses: Callable[[SentWrite], bool] = lambda _: False
    error: ApiError = field(default_factory=lambda: Forbidden(403, "Forbidden", REFUSAL))
    accepted: list[SentWrite] = field(default_factory=list)
    refused: list[SentWrite] = field(default_factory=list)

    def forget(self) -> None:
        """Empty the lists of writes."""
        self.accepted.clear()
        self.refused.clear()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Return the gate that the API server asks before each write."""
    gate_of_test = Gate()
    carry_out = FakeApi._carry_out

    def guard(self: FakeApi, request: Request, target: Any, sent: Any, **more: Any) -> Json:
        method, plural, key = request.method, request.plural, target.key
        if method == "GET" or plural in {"events", "leases"}:
            return carry_out(self, request, target=target, sent=sent, **more)
        write = SentWrite(
            method,
            target.kind.resource.full_name,
            namespace=key.namespace,
            name=key.name or str(((sent or {}).get("metadata") or {}).get("name")),
            body=sent or {},
        )
        if gate_of_test.refuses(write):
            gate_of_test.refused.append(write)
            raise gate_of_test.error
        gate_of_test.accepted.append(write)
        return carry_out(self, request, target=target, sent=sent, **more)

    monkeypatch.setattr(FakeApi, "_carry_out", guard)
    return gate_of_test


class Pool(ABC):
    """A pool of some kind in a cluster, and its requests.

    Args:
        cluster: has one replica, which serves the pool.

    Attributes:
        kind: the kind of the pool.
        kinds: the kinds that the cluster has to serve.
        settings: the settings of the replica.
    """

    settings: Settings
    kind: Resource[Any]
    kinds: Sequence[Resource[Any]]
    capacity = 400
    """How many promises the journal of the pool has room for."""

    def __init__(self, cluster: PlatformCluster) -> None:
        self.cluster = cluster

    @abstractmethod
    async def create(self) -> None:
        """Create the pool."""

    @abstractmethod
    async def create_request(self, name: str) -> None:
        """Create a request; a greedy one is in another namespace, or of another tenant."""

    @abstractmethod
    def find_address(self, name: str) -> str:
        """Return the address of a request; empty if it has none."""

    @abstractmethod
    def read_reason(self, name: str) -> str:
        """Return the reason that a request shows for waiting."""

    @abstractmethod
    def list_promised(self) -> list[str]:
        """Return the names of the requests to which a promise is stored."""

    @staticmethod
    @abstractmethod
    def is_keep(sent: SentWrite) -> bool:
        """Return whether a write keeps a promise to a greedy request."""

    @staticmethod
    @abstractmethod
    def is_void(sent: SentWrite) -> bool:
        """Return whether a write could void a promise to a greedy request."""

    async def pass_by(self, seconds: float) -> None:
        """Let the replica work for so many seconds of the virtual clock."""
        await self.cluster.pass_by(seconds)

    async def delete(self) -> None:
        """Delete the pool, and its first request."""
        raise NotImplementedError

    def annotations(self) -> Json:
        """Return the annotations of the pool."""
        return dict(self.cluster.get_stored(self.kind, "p")["metadata"].get("annotations") or {})

    async def drop_journal(self) -> None:
        """Remove the annotation that is the journal of the pool, as a person may."""
        patch = {"metadata": {"annotations": {ANNOTATION: None}}}
        await self.cluster.edit(self.kind, "p", patch)

    def is_gone(self) -> bool:
        """Return whether the pool is gone."""
        raise NotImplementedError

    @classmethod
    def is_keep_or_void(cls, sent: SentWrite) -> bool:
        """Return whether a write keeps or voids a promise to a greedy request."""
        return cls.is_keep(sent) or cls.is_void(sent)

    async def create_greedy_requests(self, count: int, *, tenants: int = 1) -> list[str]:
        """Create greedy requests, for each tenant in turn; return their names."""
        prefixes = [GREEDY, *(f"{GREEDY}{number}" for number in range(1, tenants))]
        names = [f"{prefixes[n % tenants]}-{n // tenants:03}" for n in range(count)]
        for name in names:
            await self.create_request(name)
        return names


def _namespace_of(name: str, for_others: str) -> str:
    """Return the namespace of a request: its prefix if it is greedy, otherwise `for_others`."""
    return name.partition("-")[0] if name.startswith(GREEDY) else for_others


def _promised_names(stored: Json, *, by_namespace: bool = False) -> list[str]:
    """Return the names of the requests, or their namespaces, that a journal has promises to."""
    annotation = stored["metadata"].get("annotations", {}).get(ANNOTATION, "")
    if not annotation:
        return []
    promises = json.loads(annotation).get("promises", [])  # an empty list is not stored
    return [str(entry[0 if by_namespace else 1]) for entry in promises]


class ClaimPool(Pool):
    """A GlobalInClusterIPPool; a quota keeps IPAddresses out of namespace greedy."""

    settings = Settings(integration=(CLUSTER_API,))
    kind = clusterapi.GLOBAL_IP_POOL
    kinds: Sequence[Resource[Any]] = (
        CLAIMS,
        ADDRESSES,
        CLUSTERS,
        clusterapi.IN_CLUSTER_IP_POOL,
        clusterapi.GLOBAL_IP_POOL,
    )

    @override
    async def create(self) -> None:
        await self.cluster.create_object(
            self.kind, "p", {"addresses": ["10.0.0.0/20"], "prefix": 20}
        )

    @staticmethod
    def _namespace(name: str) -> str:
        return _namespace_of(name, NAMESPACE)

    @override
    async def create_request(self, name: str) -> None:
        ref = {"apiGroup": self.kind.group, "kind": self.kind.kind, "name": "p"}
        namespace = self._namespace(name)
        await self.cluster.create_object(CLAIMS, name, {"poolRef": ref}, namespace=namespace)

    @override
    def find_address(self, name: str) -> str:
        namespace = self._namespace(name)
        if (
            not self.cluster.get_stored(CLAIMS, name, namespace)
            .get("status", {})
            .get("addressRef")
        ):
            return ""
        return str(self.cluster.get_stored(ADDRESSES, name, namespace)["spec"]["address"])

    @override
    def read_reason(self, name: str) -> str:
        ready = self.cluster.get_ready_condition(CLAIMS, name, self._namespace(name))
        return f"{ready.get('reason')}: {ready.get('message')}" if ready else ""

    @override
    def list_promised(self) -> list[str]:
        return _promised_names(self.cluster.get_stored(self.kind, "p"))

    @staticmethod
    @override
    def is_keep(sent: SentWrite) -> bool:
        return sent.kind == ADDRESSES.full_name and sent.namespace.startswith(GREEDY)

    @staticmethod
    @override
    def is_void(sent: SentWrite) -> bool:
        is_claim = sent.kind == CLAIMS.full_name and sent.namespace.startswith(GREEDY)
        return is_claim and "status" in sent.body

    @override
    async def delete(self) -> None:
        await self.cluster.delete(CLAIMS, "first")
        await self.cluster.delete(self.kind, "p")

    @override
    def is_gone(self) -> bool:
        return not self.cluster.get_stored(self.kind, "p")


class RangePool(Pool):
    """A NetworkPool; an admission policy refuses the ranges of tenants in namespace greedy."""

    settings = Settings()
    kind = NETWORK_POOL
    kinds: Sequence[Resource[Any]] = ()
    capacity = 512

    @override
    async def create(self) -> None:
        await self.cluster.create_object(NETWORK_POOL, "p", {"cidr": "10.0.0.0/20"})

    @override
    async def create_request(self, name: str) -> None:
        namespace = _namespace_of(name, "team")
        spec = {
            "poolRef": {"name": "p"},
            "tenantClusterRef": {"name": name, "namespace": namespace},
            "type": "loadbalancer",
            "count": 1,
        }
        await self.cluster.create_object(IP_ALLOCATION, name, spec)

    @override
    def find_address(self, name: str) -> str:
        status = self.cluster.get_stored(IP_ALLOCATION, name).get("status", {})
        return str(status.get("startAddress") or "")

    @override
    def read_reason(self, name: str) -> str:
        ready = self.cluster.get_ready_condition(IP_ALLOCATION, name)
        return f"{ready.get('reason')}: {ready.get('message')}" if ready else ""

    @override
    def list_promised(self) -> list[str]:
        status = self.cluster.get_stored(NETWORK_POOL, "p").get("status", {})
        return [entry["name"] for entry in status.get("assignments") or []]

    @staticmethod
    @override
    def is_keep(sent: SentWrite) -> bool:
        is_greedy = sent.kind == IP_ALLOCATION.full_name and sent.name.startswith(GREEDY)
        return is_greedy and sent.status.get("phase") == "Allocated"

    @staticmethod
    @override
    def is_void(sent: SentWrite) -> bool:
        is_greedy = sent.kind == IP_ALLOCATION.full_name and sent.name.startswith(GREEDY)
        return is_greedy and "status" in sent.body

    @override
    async def delete(self) -> None:
        await self.cluster.delete(IP_ALLOCATION, "first")
        await self.cluster.delete(NETWORK_POOL, "p")

    @override
    def is_gone(self) -> bool:
        return not self.cluster.get_stored(NETWORK_POOL, "p")


class MachineNetwork(Pool):
    """A NetworkNamespace of vitistack; an admission policy refuses addresses of some machines."""

    settings = Settings(integration=(VITISTACK,), vitistack=VitistackSettings(provider="us"))
    kind = vitistack.NETWORKS
    kinds: Sequence[Resource[Any]] = vitistack.KINDS

    @override
    async def create(self) -> None:
        static = {"ipv4CIDR": "10.0.0.0/20", "ipv4Gateway": "10.0.0.1", "ttlSeconds": 86400}
        spec = {"ipAllocation": {"type": "static", "provider": "us", "static": static}}
        status = {"provisioningPhase": "Ready"}
        await self.cluster.create_object(vitistack.NETWORKS, "p", spec, status=status)

    @override
    async def create_request(self, name: str) -> None:
        spec = {"networkNamespaceName": "p", "networkConfigurationName": f"no-{name}"}
        await self.cluster.create_object(vitistack.ALLOCATIONS, name, spec)

    @override
    def find_address(self, name: str) -> str:
        status = self.cluster.get_stored(vitistack.ALLOCATIONS, name).get("status", {})
        return str(status.get("address") or "")

    @override
    def read_reason(self, name: str) -> str:
        status = self.cluster.get_stored(vitistack.ALLOCATIONS, name).get("status", {})
        return str(status.get("message") or "")

    @override
    def list_promised(self) -> list[str]:
        return _promised_names(self.cluster.get_stored(vitistack.NETWORKS, "p"))

    @staticmethod
    @override
    def is_keep(sent: SentWrite) -> bool:
        is_greedy = sent.kind == vitistack.ALLOCATIONS.full_name and sent.name.startswith(GREEDY)
        return is_greedy and sent.status.get("phase") == "Allocated"

    @staticmethod
    @override
    def is_void(sent: SentWrite) -> bool:
        is_greedy = sent.kind == vitistack.ALLOCATIONS.full_name and sent.name.startswith(GREEDY)
        return is_greedy and "status" in sent.body


class ClusterPool(Pool):
    """An IPAMPool of KKP; an admission policy refuses addresses of some user clusters."""

    settings = Settings(integration=(KUBERMATIC,))
    kind = kubermatic.POOLS
    kinds: Sequence[Resource[Any]] = kubermatic.KINDS

    @override
    async def create(self) -> None:
        datacenter = {"type": "range", "poolCidr": "10.0.0.0/20", "allocationRange": 1}
        await self.cluster.create_object(
            kubermatic.POOLS, "p", {"datacenters": {"dc": datacenter}}
        )

    @override
    async def create_request(self, name: str) -> None:
        status = {"namespaceName": f"cluster-{name}"}
        await self.cluster.create_object(
            kubermatic.CLUSTERS, name, {"cloud": {"dc": "dc"}}, status=status
        )

    @override
    def find_address(self, name: str) -> str:
        spec = self.cluster.get_stored(kubermatic.ALLOCATIONS, "p", f"cluster-{name}").get(
            "spec", {}
        )
        return ",".join(spec.get("addresses") or [])

    @override
    def read_reason(self, name: str) -> str:
        conditions = (
            self.cluster.get_stored(kubermatic.CLUSTERS, name).get("status", {}).get("conditions")
        )
        condition = (conditions or {}).get(kubermatic.CONDITION, {})
        return f"{condition.get('reason')}: {condition.get('message')}"

    @override
    def list_promised(self) -> list[str]:
        stored = self.cluster.get_stored(kubermatic.POOLS, "p")
        return [
            namespace.removeprefix("cluster-")
            for namespace in _promised_names(stored, by_namespace=True)
        ]

    @staticmethod
    @override
    def is_keep(sent: SentWrite) -> bool:
        is_patch = sent.kind == kubermatic.ALLOCATIONS.full_name and sent.method == "PATCH"
        is_greedy = sent.namespace.startswith(f"cluster-{GREEDY}")
        return is_patch and is_greedy and "spec" in sent.body

    @staticmethod
    @override
    def is_void(sent: SentWrite) -> bool:
        is_patch = sent.kind == kubermatic.ALLOCATIONS.full_name and sent.method == "PATCH"
        return is_patch and sent.namespace.startswith(f"cluster-{GREEDY}")


KINDS: dict[str, type[Pool]] = {
    "NetworkPool": RangePool,
    "GlobalInClusterIPPool": ClaimPool,
    "NetworkNamespace": MachineNetwork,
    "IPAMPool": ClusterPool,
}


@asynccontextmanager
async def open_pool(kind: str | type[Pool]) -> AsyncIterator[Pool]:
    """Yield a pool of a kind, whose replica has served the request `first`.

    So the pool has a journal. A pool without a journal first voids earlier promises by a write of
    each waiting request, and hands out nothing while these writes are refused.
    """
    of_kind = KINDS[kind] if isinstance(kind, str) else kind
    async with open_platform_cluster(of_kind.settings, *of_kind.kinds) as cluster:
        pool = of_kind(cluster)
        await pool.create()
        await pool.create_request("first")
        await cluster.pass_by(5)
        assert pool.find_address("first")
        yield pool
