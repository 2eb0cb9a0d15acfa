"""In-cluster pools and the claims of Cluster API: how they are made, edited and read."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any, ClassVar

import msgspec
from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from controller.resource import Resource
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import (
    CLAIM_FINALIZER,
    POOL_FINALIZER,
    IPAddressClaim,
)
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    list_cluster_names,
    list_spaces,
)
from reconcilers.integrations.clusterapi.claimkind import ClaimParts
from reconcilers.integrations.clusterapi.claims import ClaimReconciler
from reconcilers.integrations.clusterapi.clusterpauses import CLUSTER_INDEX
from reconcilers.integrations.clusterapi.leftovers import Leftovers
from reconcilers.integrations.clusterapi.offers import make_offers
from reconcilers.integrations.clusterapi.pools import InClusterPoolKind
from reconcilers.integrations.clusterapi.poolstatus import PoolStatuses
from reconcilers.integrations.clusterapi.reading import make_reader
from reconcilers.integrations.clusterapi.statuses import is_waiting, read_record
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.restoredrequests import RestoredRequests
from reconcilers.promises.passes import PoolPasses
from reconcilers.spaces.feeding import feed
from reconcilers.spaces.index import SpaceIndex
from tests.reconcilers.simulation.adapter import (
    FIRST,
    NAMES,
    SPANS,
    Adapter,
    Address,
    Disturbance,
    Figure,
    Figures,
    Need,
    list_span_addresses,
)
from tests.reconcilers.simulation.model import ADDRESSES, CLAIM_POOLS, CLAIMS, CLUSTERS, Json
from tests.reconcilers.simulation.replica import Process, Worker, World
from tests.reconcilers.simulation.wire import Flight


class ClaimReplica(Process):
    """A process that serves the claims of in-cluster pools."""

    clusters: ClassVar[bool] = False
    """Whether Clusters are served."""

    @override
    def _set_up(self) -> Sequence[Worker]:
        pools: Cache[Any] = Cache(api.IN_CLUSTER_IP_POOL)
        self.pools = self._create_feed(CLAIM_POOLS, pools)
        caches = self._create_claim_caches({"InClusterIPPool": pools})
        client = self._create_client()
        kind = InClusterPoolKind(
            pools, self._create_parts(client, caches), self._create_statuses(client, caches)
        )
        of_pools = PoolPasses(kind, client, clock=self.clock, settings=self.settings)
        of_claims = ClaimReconciler(client, caches, recorder=self.recorder, clock=self.clock)
        return (
            Worker(of_pools.reconcile, (self.pools,), find_pool=None, forget=of_pools.forget),
            Worker(of_claims.reconcile, (self.claims, self.addresses), caches.find_shard_key),
        )

    def _create_claim_caches(self, pools: Mapping[str, Cache[Any]]) -> ClaimCaches:
        """Return the caches of claims, IPAddresses and Clusters, together with those of pools."""
        version = api.CONTRACT_VERSIONS[0]
        claim_kind, address_kind = api.get_claim_kind(version), api.get_address_kind(version)
        indexes = {SPACE_INDEX: list_spaces, CLUSTER_INDEX: list_cluster_names}
        claims = Cache(claim_kind, indexes=indexes)
        addresses = Cache(address_kind, indexes=indexes)
        clusters = Cache(api.get_cluster_kind(version)) if self.clusters else None
        self.askers = self.claims = self._create_feed(CLAIMS, claims)
        self.addresses = self._create_feed(ADDRESSES, addresses)
        if clusters is not None:
            self._create_feed(CLUSTERS, clusters)
        return ClaimCaches(
            claims,
            addresses,
            clusters=clusters,
            pools=dict(pools),
            claim_kind=claim_kind,
            address_kind=address_kind,
        )

    def _create_statuses(self, client: Client, caches: ClaimCaches) -> PoolStatuses:
        """Return the writer of the statuses of pools."""
        spaces = SpaceIndex()
        for cache in caches.pools.values():
            if cache.resource != NETWORK_POOL:
                pools: Cache[Any] = cache
                feed(spaces, pools, partial(make_offers, pools.resource))
        return PoolStatuses(client, self.recorder, clock=self.clock, spaces=spaces)

    def _create_parts(self, client: Client, caches: ClaimCaches) -> ClaimParts:
        """Return the parts that claims of pools of all kinds share."""
        clock, settings, recorder = self.clock, self.settings, self.recorder
        return ClaimParts(
            client,
            caches,
            reader=make_reader(client, caches, clock=clock, patience=settings.cache_patience),
            recorder=recorder,
            leftovers=Leftovers(client, caches, clock),
            restored=RestoredRequests(
                caches.claims, clock, is_waiting=is_waiting, spaces=list_spaces
            ),
            clock=clock,
            settings=settings,
        )


class Claims(Adapter):
    """In-cluster pools that serve IPAddressClaims."""

    pools = CLAIM_POOLS
    requests: ClassVar[tuple[str, ...]] = (CLAIMS,)
    finalizers: ClassVar[Mapping[str, str]] = {
        CLAIM_POOLS: POOL_FINALIZER,
        CLAIMS: CLAIM_FINALIZER,
    }
    resets: ClassVar[Mapping[str, Json]] = {
        CLAIMS: {"status": {"addressRef": None, "conditions": None}}
    }
    pool_kind: ClassVar[Resource[Any]] = api.IN_CLUSTER_IP_POOL
    pool_spec: ClassVar[Json] = {}
    """What else the pools say."""

    @override
    def make_replica(self, world: World) -> Process:
        return ClaimReplica(world)

    @override
    def make_pool(self, name: str) -> None:
        if self.model.get(CLAIM_POOLS, name):
            return
        first, last = SPANS[name]
        spec = {
            "addresses": [f"{FIRST}{first}-{FIRST}{last}"],
            "prefix": 24,
            "allocateReservedIPAddresses": True,
            **self.pool_spec,
        }
        self.model.create(CLAIM_POOLS, {"metadata": {"name": name}, "spec": spec})

    def make_pool_ref(self, pool: str) -> Json:
        """Return the reference of a claim to a pool."""
        return {"apiGroup": self.pool_kind.group, "kind": self.pool_kind.kind, "name": pool}

    @override
    def create_request(self, name: str, count: int = 1, since: str = "") -> None:
        self.model.create(CLAIMS, self.make_claim(name))
        patch = {"metadata": {"finalizers": [CLAIM_FINALIZER]}}
        self.model.edit(CLAIMS, name, patch)

    def make_claim(self, name: str) -> Json:
        """Return a claim of pool p, without finalizer."""
        return {"metadata": {"name": name}, "spec": {"poolRef": self.make_pool_ref("p")}}

    @override
    def find_request(self, name: str) -> Json | None:
        return self.model.get(CLAIMS, name)

    @override
    def is_grant(self, flight: Flight, name: str) -> bool:
        if (flight.method, flight.plural) == ("POST", ADDRESSES):
            return bool(flight.body["metadata"]["name"] == name)
        is_its = (flight.method, flight.plural, flight.name) == ("PATCH", CLAIMS, name)
        return is_its and bool(flight.body.get("status", {}).get("addressRef"))

    @override
    def act_as_user(self) -> None:
        name = self.random.choice(NAMES)
        if self.model.get(CLAIMS, name):
            if self.plan.force and self.random.random() < 0.5:
                self.model.remove_by_force(CLAIMS, name)
            else:
                self.model.delete(CLAIMS, name)
            return
        spec = {"poolRef": self.make_pool_ref(self.pick_pool()), **self._make_further_spec()}
        self.model.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})

    def _make_further_spec(self) -> Json:
        """Return more fields for the spec of a new claim."""
        return {}

    @override
    def list_disturbances(self) -> Mapping[str, Sequence[Disturbance]]:
        return {"touches": (self._make_by_hand,), "force": (self._remove_address,)}

    def _make_by_hand(self) -> None:
        """Create an IPAddress under a claim's name, even if another claim has the address."""
        first, last = SPANS["p"]
        address = f"{FIRST}{self.random.randint(first, last)}"
        self.make_address(self.random.choice(NAMES), address)

    def make_address(self, claim: str, address: str) -> None:
        """Create an IPAddress of pool p for a claim, as a person or another provider does."""
        spec: Json = {"claimRef": {"name": claim}, "poolRef": self.make_pool_ref("p")}
        spec |= {"address": address, "prefix": 24}
        self.model.create(ADDRESSES, {"metadata": {"name": claim}, "spec": spec})

    def _remove_address(self) -> None:
        """Remove an IPAddress by force."""
        if name := self.pick_name(ADDRESSES):
            self.model.remove_by_force(ADDRESSES, name)

    @override
    def prepare_calm(self) -> None:
        """Create the pools that are missing; remove IPAddresses of users that no claim adopted."""
        super().prepare_calm()
        for address in self.model.list_objects(ADDRESSES):
            if not address["metadata"].get("ownerReferences"):
                self.model.remove_by_force(ADDRESSES, address["metadata"]["name"])

    @override
    def list_shown(self, request: Json) -> frozenset[Address]:
        """Return the address that a claim's user finds: by its addressRef, else by its record.

        If a person created an IPAddress of that name, and no controller adopted it, the record
        counts: nothing prevents that its address is promised at the same moment.
        """
        if not has_address_ref(request):
            return frozenset()
        finalizers = request["metadata"].get("finalizers", ())
        if "deletionTimestamp" in request["metadata"] and CLAIM_FINALIZER not in finalizers:
            return frozenset()
        address = self.model.get(ADDRESSES, request["status"]["addressRef"]["name"])
        record = read_record(msgspec.convert(request, IPAddressClaim))
        if record is not None and (
            address is None or not address["metadata"].get("ownerReferences")
        ):
            return frozenset({("", ip_address(record.address))})
        return frozenset({("", ip_address(address["spec"]["address"]))} if address else ())

    @override
    def list_offered(self, request: Json) -> frozenset[Address]:
        return list_span_addresses(request["spec"]["poolRef"]["name"])

    @override
    def list_taken(self) -> frozenset[Address]:
        of_addresses = {
            ("", ip_address(address["spec"]["address"]))
            for address in self.model.list_objects(ADDRESSES)
        }
        return super().list_taken() | of_addresses

    @override
    def list_unserved(self) -> Iterator[tuple[str, list[Need]]]:
        for claim in self.model.list_objects(CLAIMS):
            if self.is_served(claim) and not has_address_ref(claim):
                yield self.describe_request(claim), [Need(self.list_offered(claim))]

    @override
    def read_figures(self, pool: Json) -> Iterator[Figures]:
        counts = (pool.get("status") or {}).get("ipAddresses") or {}
        status_counts = {
            Figure.TOTAL: counts.get("total"),
            Figure.USED: counts.get("used"),
            Figure.FREE: counts.get("free"),
        }
        yield Figures(list_span_addresses(pool["metadata"]["name"]), status_counts)

    def is_served(self, claim: Json) -> bool:
        """Return whether a pool has to serve a claim."""
        pool = self.model.get(self.pools, claim["spec"]["poolRef"]["name"])
        return pool is not None and "deletionTimestamp" not in pool["metadata"]

    @override
    def find_violations(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if (
            plural != CLAIMS
            or old is None
            or new is None
            or has_address_ref(old)
            or not has_address_ref(new)
        ):
            return
        if not self.list_shown(new):
            yield f"{self.describe_request(new)} refers to an IPAddress that is not there"

    @override
    def find_unfinished_work(self) -> str | None:
        for address in self.model.list_objects(ADDRESSES):
            name = address["metadata"]["name"]
            claim = self.model.get(CLAIMS, name)
            if claim is None:
                return f"IPAddress {name} is left of a claim that is gone"
            shown_address = ("", ip_address(address["spec"]["address"]))
            if self.is_served(claim) and shown_address not in self.list_shown(claim):
                return f"IPAddress {name} serves no claim: {claim.get('status')}"
        for claim in self.model.list_objects(CLAIMS):
            name = claim["metadata"]["name"]
            if "deletionTimestamp" in claim["metadata"]:
                return f"{name} is deleted and still there"
            if (
                self.is_served(claim)
                and has_address_ref(claim)
                and not self.model.get(ADDRESSES, name)
            ):
                return f"{name} refers to an IPAddress that is not there"
        return None


def has_address_ref(claim: Json) -> bool:
    """Return whether a claim has an addressRef."""
    return bool((claim.get("status") or {}).get("addressRef"))
