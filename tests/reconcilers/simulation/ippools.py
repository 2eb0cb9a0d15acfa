"""metal3's pools and the claims of both kinds: how they are made, edited and read."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from random import Random
from typing import Any, ClassVar

from typing_extensions import override

from controller.cache import Cache
from controller.meta import Key
from controller.outcome import SETTLED, Outcome
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.metal3.api import (
    ADDRESS_FINALIZER,
    CLAIM_FINALIZER,
    CONTRACT_ADDRESS_FINALIZER,
    CONTRACT_CLAIM_FINALIZER,
    GROUP,
    JOURNALS,
    POOL_FINALIZER,
    POOLS,
)
from reconcilers.integrations.metal3.caches import (
    POOL_INDEXES,
    EitherCaches,
    IPPoolClaimCaches,
    Metal3Caches,
    Metal3Reader,
    make_address_indexes,
    make_claim_indexes,
)
from reconcilers.integrations.metal3.claimformats import (
    AddressT,
    ClaimFormat,
    ClaimT,
    IPAddressClaimFormat,
    IPClaimFormat,
)
from reconcilers.integrations.metal3.claimkind import Metal3Claims, Metal3Parts, ServedClaims
from reconcilers.integrations.metal3.claims import Metal3ClaimReconciler
from reconcilers.integrations.metal3.pools import Metal3Pools, ServedKinds
from reconcilers.integrations.metal3.poolstatus import PoolIndexes
from reconcilers.promises.journal import Journal
from reconcilers.promises.passes import PoolPasses
from tests.reconcilers.simulation.adapter import (
    FIRST,
    NAMES,
    SPANS,
    Adapter,
    Address,
    AnnotationMemory,
    Disturbance,
    Memory,
    Need,
    StoredPromise,
    decode_metadata,
    list_span_addresses,
    sort_addresses,
)
from tests.reconcilers.simulation.model import (
    ADDRESSES,
    CLAIMS,
    CLUSTERS,
    METAL3_ADDRESSES,
    METAL3_CLAIMS,
    METAL3_POOLS,
    Json,
)
from tests.reconcilers.simulation.replica import IdleProcess, Process, Worker, World
from tests.reconcilers.simulation.wire import Flight

ADDRESSES_OF = {METAL3_CLAIMS: METAL3_ADDRESSES, CLAIMS: ADDRESSES}
REFERENCES = {METAL3_CLAIMS: "address", CLAIMS: "addressRef"}
"""The field of a claim's status that names its IPAddress."""
ADDRESS_FINALIZERS = {
    METAL3_CLAIMS: ADDRESS_FINALIZER,
    CLAIMS: CONTRACT_ADDRESS_FINALIZER,
}
KINDS = {METAL3_CLAIMS: "IPClaim", CLAIMS: "IPAddressClaim"}


class IPPoolReplica(Process):
    """A process that serves the claims of IPPools."""

    clusters: ClassVar[bool] = False
    """Whether Clusters are served."""

    @override
    def _set_up(self) -> Sequence[Worker]:
        version = clusterapi.CONTRACT_VERSIONS[0]
        contract = IPAddressClaimFormat(
            clusterapi.get_claim_kind(version), clusterapi.get_address_kind(version)
        )
        pools: Cache[Any] = Cache(POOLS, indexes=POOL_INDEXES)
        self.pools = self._create_feed(METAL3_POOLS, pools)
        clusters = Cache(clusterapi.get_cluster_kind(version)) if self.clusters else None
        if clusters is not None:
            self._create_feed(CLUSTERS, clusters)

        def make_caches(
            claim_format: ClaimFormat[ClaimT, AddressT], clusters: Cache[clusterapi.Cluster] | None
        ) -> IPPoolClaimCaches[ClaimT, AddressT]:
            return IPPoolClaimCaches(
                claim_format,
                Cache(claim_format.claims, indexes=make_claim_indexes(claim_format)),
                addresses=Cache(
                    claim_format.addresses, indexes=make_address_indexes(claim_format)
                ),
                pools=pools,
                clusters=clusters,
            )

        both: Sequence[EitherCaches] = (
            make_caches(IPClaimFormat(), None),
            make_caches(contract, clusters),
        )
        claim_caches_by_kind = {claim_caches.claim_kind: claim_caches for claim_caches in both}
        caches = Metal3Caches(pools, claim_caches_by_kind, clusters)
        client, clock, settings = self._create_client(), self.clock, self.settings
        reader = Metal3Reader(
            client,
            [claim_caches.read_source() for claim_caches in both],
            clock=clock,
            patience=settings.cache_patience,
        )
        parts = Metal3Parts(
            client,
            caches,
            reader=reader,
            recorder=self.recorder,
            clock=clock,
            settings=settings,
            generator=Random(0),
        )

        def serve(claim_caches: IPPoolClaimCaches[ClaimT, AddressT], /) -> ServedClaims:
            return Metal3Claims(parts, claim_caches)

        def make_passes(claim_caches: IPPoolClaimCaches[ClaimT, AddressT], /) -> Sequence[Any]:
            reconciler = Metal3ClaimReconciler(
                client,
                caches,
                claim_caches=claim_caches,
                reader=reader,
                recorder=self.recorder,
                clock=clock,
            )
            return reconciler.reconcile, _make_pass_over_address(claim_caches, reconciler)

        kinds: list[ServedClaims] = []
        workers: list[Worker] = []
        for plural, claim_caches in zip(
            (METAL3_CLAIMS, CLAIMS), claim_caches_by_kind.values(), strict=True
        ):
            claims = self._create_feed(plural, claim_caches.claims)
            addresses = self._create_feed(ADDRESSES_OF[plural], claim_caches.addresses)
            if plural == METAL3_CLAIMS:
                self.askers = claims
            kinds.append(claim_caches.visit(serve))
            of_claims, of_addresses = claim_caches.visit(make_passes)
            workers += [Worker(of_claims, (claims,)), Worker(of_addresses, (addresses,))]
        kind = Metal3Pools(
            client,
            parts,
            served_kinds=ServedKinds(clock, kinds),
            indexes=PoolIndexes(client, caches, clock),
        )
        passes = PoolPasses(kind, client, clock=clock, settings=settings)
        return (
            Worker(passes.reconcile, (self.pools,), find_pool=None, forget=passes.forget),
            *workers,
        )


def _make_pass_over_address(
    claim_caches: IPPoolClaimCaches[ClaimT, AddressT],
    reconciler: Metal3ClaimReconciler[ClaimT, AddressT],
) -> Any:
    """Return a pass over the claim that an IPAddress names."""

    async def reconcile(key: Key) -> Outcome:
        address = claim_caches.addresses.get(key)
        claim = (
            None if address is None else claim_caches.claim_format.find_claim_of_address(address)
        )
        return SETTLED if claim is None else await reconciler.reconcile(claim)

    return reconcile


class TwoKindsMemory(AnnotationMemory):
    """The journal is an annotation of the pool, and names two kinds of requests."""

    @override
    def read_promises(self, pool: Json) -> Sequence[StoredPromise]:
        return [
            StoredPromise(
                promise.uid,
                promise.resourceVersion,
                tuple(
                    (part.space, part.range.start_text, part.range.end_text)
                    for part in promise.ranges
                ),
            )
            for promise in JOURNALS.read(decode_metadata(pool)).promises
        ]

    @override
    def make_empty_journal(self, pool: Json, revision: int) -> Json:
        kinds = (JOURNALS.kind, JOURNALS.effects, *JOURNALS.others[0])
        journal = Journal(dict.fromkeys(kinds, revision))
        return dict(JOURNALS.patch(decode_metadata(pool), journal))


class IPPools(Adapter):
    """IPPools that serve IPClaims and IPAddressClaims."""

    pools = METAL3_POOLS
    requests: ClassVar[tuple[str, ...]] = (METAL3_CLAIMS, CLAIMS)
    memories: ClassVar[tuple[Memory, ...]] = (TwoKindsMemory(),)
    finalizers: ClassVar[Mapping[str, str]] = {
        METAL3_POOLS: POOL_FINALIZER,
        METAL3_CLAIMS: CLAIM_FINALIZER,
        CLAIMS: CONTRACT_CLAIM_FINALIZER,
    }
    resets: ClassVar[Mapping[str, Json]] = {
        METAL3_CLAIMS: {"status": {"address": None, "errorMessage": None}},
        CLAIMS: {"status": {"addressRef": None, "conditions": None}},
    }

    @override
    def make_replica(self, world: World) -> Process:
        return IPPoolReplica(world)

    @override
    def make_replica_without_integration(self, world: World) -> Process:
        return IdleProcess(world)

    @override
    def make_pool(self, name: str) -> None:
        if self.model.get(METAL3_POOLS, name):
            return
        first, last = SPANS[name]
        middle = (first + last) // 2
        entries = [
            {"start": f"{FIRST}{middle + 1}", "end": f"{FIRST}{last}"},
            {"start": f"{FIRST}{first}", "end": f"{FIRST}{middle}"},
        ]
        spec = {"namePrefix": name, "prefix": 24, "pools": entries}
        self.model.create(METAL3_POOLS, {"metadata": {"name": name}, "spec": spec})

    @override
    def create_request(self, name: str, count: int = 1, since: str = "") -> None:
        self._create_claim(METAL3_CLAIMS, name, "p")
        self.model.edit(METAL3_CLAIMS, name, {"metadata": {"finalizers": [CLAIM_FINALIZER]}})

    def _create_claim(self, plural: str, name: str, pool: str, wish: str = "") -> None:
        """Create a claim of either kind.

        Args:
            plural: of the kind.
            name: of the claim.
            pool: the name of its pool.
            wish: the address that it requests by annotation; empty for any.
        """
        metadata: Json = {"name": name}
        if wish:
            metadata["annotations"] = {"ipAddress": wish}
        spec: Json = {"poolRef": {"apiGroup": GROUP, "kind": "IPPool", "name": pool}}
        if plural == METAL3_CLAIMS:
            spec = {"pool": {"name": pool}}
        self.model.create(plural, {"metadata": metadata, "spec": spec})

    @override
    def find_request(self, name: str) -> Json | None:
        return self.model.get(METAL3_CLAIMS, name)

    @override
    def is_grant(self, flight: Flight, name: str) -> bool:
        if (flight.method, flight.plural) == ("POST", METAL3_ADDRESSES):
            return bool(flight.body["spec"]["claim"]["name"] == name)
        is_its = (flight.method, flight.plural, flight.name) == ("PATCH", METAL3_CLAIMS, name)
        return is_its and bool(flight.body.get("status", {}).get("address"))

    @override
    def act_as_user(self) -> None:
        plural, name = self.random.choice(self.requests), self.random.choice(NAMES)
        if self.model.get(plural, name):
            if self.plan.force and self.random.random() < 0.5:
                self.model.remove_by_force(plural, name)
            else:
                self.model.delete(plural, name)
            return
        pool = self.pick_pool()
        wish = ""
        if self.random.random() < 0.2:
            first, last = SPANS[pool]
            wish = f"{FIRST}{self.random.randint(first, last + 1)}"
        self._create_claim(plural, name, pool=pool, wish=wish)

    @override
    def list_disturbances(self) -> Mapping[str, Sequence[Disturbance]]:
        return {
            "touches": (self._make_by_hand,),
            "force": (self._remove_address,),
            "switches": (self._serve_by_metal3, self._serve_by_metal3, self._release_by_metal3),
        }

    def _serve_by_metal3(self) -> None:
        """Let metal3's own controller serve a claim, once no process of ours serves its kind."""
        plural = self.random.choice(self.requests)
        waiting = [
            claim["metadata"]["name"]
            for claim in self.model.list_objects(plural)
            if "deletionTimestamp" not in claim["metadata"]
            and not find_address_name(claim)
            # metal3's controller never serves a claim that has an error.
            and not (claim.get("status") or {}).get("errorMessage")
        ]
        if self.is_abandoned and waiting:
            is_killed = self.random.random() < 0.2
            self.serve_by_metal3(plural, self.random.choice(waiting), is_killed=is_killed)

    def serve_by_metal3(
        self,
        plural: str,
        name: str,
        *,
        choice: frozenset[Address] | None = None,
        is_killed: bool = False,
    ) -> None:
        """Serve a claim as metal3's own controller does, which knows no promises.

        Args:
            plural: the kind of the claim.
            name: of the claim, which waits.
            choice: the addresses from which it chooses; None for all of the pool.
            is_killed: whether the controller dies before it writes the claim's status.
        """
        claim = self.model.objects[plural, name]
        pool = self.model.get(METAL3_POOLS, find_pool(claim))
        offered = self.list_offered(claim) if choice is None else choice
        free = sort_addresses(offered - self.list_taken())
        existing = self._list_addresses_of(plural, name)
        shown_addresses = super().list_taken()
        is_shared = any(read_address(address) in shown_addresses for address in existing)
        is_offered = pool is not None and "deletionTimestamp" not in pool["metadata"]
        # A person may have created an IPAddress with the address of another claim.
        if pool is None or not is_offered or is_shared or not (existing or free):
            return
        finalizers = {"finalizers": [self.finalizers[plural]]}
        self.model.edit(plural, name, {"metadata": finalizers})
        names = [address["metadata"]["name"] for address in existing]
        if not names:
            names = [
                self._create_address_by_metal3(plural, claim, pool=pool, address=str(free[0][1]))
            ]
        if not is_killed:
            self.model.edit(plural, name, {"status": {REFERENCES[plural]: {"name": names[0]}}})

    def _list_addresses_of(self, plural: str, claim: str) -> list[Json]:
        """Return the IPAddresses that name a claim."""
        return [
            address
            for address in self.model.list_objects(ADDRESSES_OF[plural])
            if (address["spec"].get("claim") or address["spec"].get("claimRef"))["name"] == claim
        ]

    def _create_address_by_metal3(self, plural: str, claim: Json, pool: Json, address: str) -> str:
        """Create the IPAddress of a claim as metal3's controller does; return its name."""
        reference = claim["metadata"]
        name = f"{pool['metadata']['name']}-{address.replace('.', '-')}"
        owners = [
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "IPPool",
                "name": pool["metadata"]["name"],
                "uid": pool["metadata"]["uid"],
            },
            {
                "apiVersion": claim["apiVersion"],
                "kind": claim["kind"],
                "name": reference["name"],
                "uid": reference["uid"],
            },
        ]
        spec: Json = {"address": address, "prefix": 24}
        if plural == METAL3_CLAIMS:
            spec |= {"pool": {"name": find_pool(claim)}, "claim": {"name": reference["name"]}}
        else:
            spec |= {
                "poolRef": claim["spec"]["poolRef"],
                "claimRef": {"name": reference["name"]},
            }
        metadata = {
            "name": name,
            "finalizers": [ADDRESS_FINALIZERS[plural]],
            "ownerReferences": owners,
        }
        self.model.create(ADDRESSES_OF[plural], {"metadata": metadata, "spec": spec})
        return name

    def _release_by_metal3(self) -> None:
        """Let metal3's own controller release a claim that is being deleted."""
        plural = self.random.choice(self.requests)
        released = [
            claim["metadata"]["name"]
            for claim in self.model.list_objects(plural)
            if "deletionTimestamp" in claim["metadata"]
        ]
        if not self.is_abandoned or not released:
            return
        name = self.random.choice(released)
        for address in self._list_addresses_of(plural, name):
            self.model.remove_by_force(ADDRESSES_OF[plural], address["metadata"]["name"])
        self.model.remove_by_force(plural, name)

    def _make_by_hand(self) -> None:
        """Create an IPAddress for a claim, even if another claim has the address."""
        plural = self.random.choice(self.requests)
        first, last = SPANS["p"]
        address = f"{FIRST}{self.random.randint(first, last)}"
        name = self.random.choice(("by-hand", f"p-{address.replace('.', '-')}"))
        if self.model.get(ADDRESSES_OF[plural], name):
            return
        claim, spec = self.random.choice(NAMES), {"address": address, "prefix": 24}
        if plural == METAL3_CLAIMS:
            reference: Json = {"claim": {"name": claim}, "pool": {"name": "p"}}
        else:
            pool = {"apiGroup": GROUP, "kind": "IPPool", "name": "p"}
            reference = {"claimRef": {"name": claim}, "poolRef": pool}
        body = {"metadata": {"name": name}, "spec": {**spec, **reference}}
        self.model.create(ADDRESSES_OF[plural], body)

    def _remove_address(self) -> None:
        """Remove an IPAddress by force."""
        plural = self.random.choice((METAL3_ADDRESSES, ADDRESSES))
        if name := self.pick_name(plural):
            self.model.remove_by_force(plural, name)

    @override
    def prepare_calm(self) -> None:
        """Create the pools that are missing; remove IPAddresses of users that no claim adopted."""
        super().prepare_calm()
        for plural in ADDRESSES_OF.values():
            for address in self.model.list_objects(plural):
                if not address["metadata"].get("ownerReferences"):
                    self.model.remove_by_force(plural, address["metadata"]["name"])

    @override
    def list_shown(self, request: Json) -> frozenset[Address]:
        """Return the address that a reader of a claim finds: of its IPAddress, or in its name."""
        plural = find_plural(request)
        name = find_address_name(request)
        meta = request["metadata"]
        released = "deletionTimestamp" in meta and self.finalizers[plural] not in meta.get(
            "finalizers", ()
        )
        if not name or released:
            return frozenset()
        address = self.model.get(ADDRESSES_OF[plural], name)
        if address is not None:
            return frozenset({("", ip_address(address["spec"]["address"]))})
        _, _, dashed = name.partition("-")
        if not dashed[:1].isdigit():
            return frozenset()
        return frozenset({("", ip_address(dashed.replace("-", ".")))})

    @override
    def list_offered(self, request: Json) -> frozenset[Address]:
        return list_span_addresses(find_pool(request))

    @override
    def describe_request(self, request: Json) -> str:
        return f"{KINDS[find_plural(request)]} {request['metadata']['name']}"

    @override
    def list_taken(self) -> frozenset[Address]:
        of_addresses = {
            ("", ip_address(address["spec"]["address"]))
            for plural in ADDRESSES_OF.values()
            for address in self.model.list_objects(plural)
        }
        return super().list_taken() | of_addresses

    @override
    def list_unserved(self) -> Iterator[tuple[str, list[Need]]]:
        for plural in self.requests:
            for claim in self.model.list_objects(plural):
                if self._is_served(claim) and not find_address_name(claim):
                    annotations = claim["metadata"].get("annotations") or {}
                    wish = annotations.get("ipAddress")
                    choice = self.list_offered(claim)
                    if wish:
                        choice &= {("", ip_address(wish))}
                    yield self.describe_request(claim), [Need(choice)]

    def _is_served(self, claim: Json) -> bool:
        """Return whether the pool of a claim exists and is not being deleted."""
        pool = self.model.get(METAL3_POOLS, find_pool(claim))
        return pool is not None and "deletionTimestamp" not in pool["metadata"]

    @override
    def find_violations(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if plural not in self.requests or new is None or not find_address_name(new):
            return
        if (new.get("status") or {}).get("errorMessage"):
            yield f"{self.describe_request(new)} shows an error beside its address"
        if old is None or find_address_name(old) or self.plan.force:
            return  # what is removed by force may be removed just before the write
        if self.model.get(ADDRESSES_OF[plural], find_address_name(new)) is None:
            yield f"{self.describe_request(new)} names an IPAddress that is not there"

    @override
    def find_unfinished_work(self) -> str | None:
        for plural in self.requests:
            if problem := self._find_unfinished_of(plural):
                return problem
        for pool in self.model.list_objects(METAL3_POOLS):
            if "deletionTimestamp" in pool["metadata"]:
                continue
            indexes = (pool.get("status") or {}).get("indexes") or {}
            held_addresses = {
                str(address)
                for plural in self.requests
                for claim in self.model.list_objects(plural)
                if find_pool(claim) == pool["metadata"]["name"]
                for _, address in self.list_shown(claim)
            } | {
                address["spec"]["address"]
                for plural in ADDRESSES_OF.values()
                for address in self.model.list_objects(plural)
            }
            if not set(indexes.values()) <= held_addresses:
                return (
                    f"pool {pool['metadata']['name']} shows {indexes}, there are {held_addresses}"
                )
        return None

    def _find_unfinished_of(self, plural: str) -> str | None:
        """Return work on claims of one kind that is not done; None if all is done."""
        for address in self.model.list_objects(ADDRESSES_OF[plural]):
            name, spec = address["metadata"]["name"], address["spec"]
            claim = self.model.get(plural, (spec.get("claim") or spec.get("claimRef"))["name"])
            if claim is None:
                return f"IPAddress {name} is left of a claim that is gone"
            if self._is_served(claim) and find_address_name(claim) != name:
                return f"IPAddress {name} serves no claim: {claim.get('status')}"
        for claim in self.model.list_objects(plural):
            name = find_address_name(claim)
            if "deletionTimestamp" in claim["metadata"]:
                return f"{self.describe_request(claim)} is deleted and still there"
            # No name but that of an IPAddress by hand conceals the address: a person has to act.
            is_missing = (
                name not in {"", "by-hand"} and self.model.get(ADDRESSES_OF[plural], name) is None
            )
            if self._is_served(claim) and is_missing:
                return f"{self.describe_request(claim)} names an IPAddress that is not there"
        return None


def read_address(address: Json) -> Address:
    """Return the address of an IPAddress in the simulation's one space."""
    return "", ip_address(address["spec"]["address"])


def find_plural(claim: Json) -> str:
    """Return the plural of a claim's kind."""
    return METAL3_CLAIMS if "pool" in claim["spec"] else CLAIMS


def find_pool(claim: Json) -> str:
    """Return the name of the pool of a claim."""
    spec = claim["spec"]
    return str((spec.get("pool") or spec.get("poolRef"))["name"])


def find_address_name(claim: Json) -> str:
    """Return the name of the IPAddress in the status of a claim; empty for none."""
    status = claim.get("status") or {}
    return str((status.get("address") or status.get("addressRef") or {}).get("name", ""))
