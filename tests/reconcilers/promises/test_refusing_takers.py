"""A taker of any kind of requests leaves the pool as it was when it refuses a request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from allocator import Layout
from controller.cache import Cache
from controller.meta import Key, ObjectMeta
from reconcilers.addressing import familychoice, poolgeometry
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.clusterapi.addresses import parse_ip_space
from reconcilers.integrations.clusterapi.caches import ClaimCaches, compute_claim_holdings
from reconcilers.integrations.clusterapi.claimtaking import ClaimTaker
from reconcilers.integrations.core.claimreading import ClaimSpaceView
from reconcilers.integrations.core.rules import SpaceView
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.kubermatic.facts import compute_holdings, make_holder
from reconcilers.integrations.kubermatic.planning import (
    ClusterAsker,
    ClusterTaker,
    DatacenterContent,
    PoolContent,
)
from reconcilers.integrations.kubermatic.spaces import parse_space
from reconcilers.integrations.vitistack import api as vitistack
from reconcilers.integrations.vitistack.caches import compute_network_holdings
from reconcilers.integrations.vitistack.networks import NetworkTaker
from reconcilers.integrations.vitistack.ranges import NetworkSpace
from reconcilers.networkpool.allocationtaking import AllocationTaker
from reconcilers.promises.choosing import Refused, Taker
from reconcilers.promises.holdings import Holdings, Layouts
from reconcilers.promises.identities import find_by_key
from reconcilers.promises.journal import Journal
from tests.reconcilers import make


@dataclass(frozen=True)
class Case:
    """A taker, a request that it has to refuse, and a request that it can serve."""

    holdings: Holdings
    taker: Taker[Any]
    refused: Any
    fitting: Any


def make_network_pool_whose_second_family_is_full() -> Case:
    """Return a NetworkPool whose second family is too small for the refused allocation."""
    pool = make.pool(secondary={"cidr": "fd00::40:0/125"})
    refused = make.allocation("big", size=9, asks={"ipFamilyPolicy": "RequireDualStack"})
    fitting = make.allocation("small", size=2, asks={"ipFamilyPolicy": "RequireDualStack"})
    view = make.view(refused, fitting)
    layouts = poolgeometry.parse_layouts(pool.spec, 1 << 20)
    names: Layouts = {familychoice.FAMILY_NAMES[layout.family]: layout for layout in layouts}
    view.holdings.replace_layouts(names)
    spaces = [view.holdings.get_space(name) for name in names]
    taker = AllocationTaker(pool, view.find, spaces=spaces, holdings=view.holdings, promises=())
    return Case(view.holdings, taker, refused=refused, fitting=fitting)


def make_claim_whose_ipaddress_is_of_another_claim() -> Case:
    """Return a claim whose IPAddress exists already and is for another claim."""
    claim_kind, address_kind = (
        clusterapi.get_claim_kind("v1beta2"),
        clusterapi.get_address_kind("v1beta2"),
    )
    ref = clusterapi.PoolRef("InClusterIPPool", "p", "ipam.cluster.x-k8s.io")
    refused, fitting = (
        clusterapi.IPAddressClaim(_make_metadata(name), clusterapi.ClaimSpec(ref))
        for name in ("a", "b")
    )
    spec = clusterapi.AddressSpec(
        clusterapi.NameRef("other"), ref, address="10.0.0.9", prefix=24, gateway=""
    )
    address = clusterapi.IPAddress(_make_metadata("a"), spec)
    pool = clusterapi.InClusterIPPool(
        _make_metadata("p"), clusterapi.IPPoolSpec(("10.0.0.9-10.0.0.12",), prefix=24)
    )
    space = parse_ip_space(pool.spec)
    claims = {claim.metadata.key: claim for claim in (refused, fitting)}
    addresses = {address.metadata.key: address}
    holdings = compute_claim_holdings(claims, addresses, space)

    def list_addresses_of_claim(key: Key) -> list[clusterapi.IPAddress]:
        return [addresses[key]] if key in addresses else []

    caches = ClaimCaches(
        Cache(claim_kind),
        Cache(address_kind),
        clusters=None,
        pools={},
        claim_kind=claim_kind,
        address_kind=address_kind,
    )
    view = ClaimSpaceView(
        0,
        holdings,
        find=find_by_key(clusterapi.JOURNALS.kind, claims.get),
        list_addresses_of_claim=list_addresses_of_claim,
    )
    taker = ClaimTaker(
        caches,
        clusterapi.IN_CLUSTER_IP_POOL,
        pool=pool,
        settled=Journal({}, ()),
        space=space,
        view=view,
    )
    return Case(holdings, taker, refused=refused, fitting=fitting)


def make_vitistack_address_that_is_requested_outside_its_network() -> Case:
    """Return a request of vitistack for an address outside the network."""
    space = NetworkSpace(Layout.parse("10.0.0.0/29"))
    refused = vitistack.VitistackAllocation(
        _make_metadata("a"),
        vitistack.VitistackAllocationSpec(
            "n", "a", interfaceName="eth0", requestedAddress="10.9.9.9"
        ),
    )
    fitting = vitistack.VitistackAllocation(
        _make_metadata("b"), vitistack.VitistackAllocationSpec("n", "b", "eth0")
    )
    requests = {request.metadata.key: request for request in (refused, fitting)}
    holdings = compute_network_holdings(requests.values(), space)
    find = find_by_key(vitistack.JOURNALS.kind, requests.get)
    taker = NetworkTaker("n", space, SpaceView(0, holdings, find=find))
    return Case(holdings, taker, refused=refused, fitting=fitting)


def make_kkp_cluster_that_needs_too_many_parts() -> Case:
    """Return a user cluster of KKP whose addresses would be in too many parts."""
    every_second = tuple(f"10.0.{number >> 7}.{(number & 127) * 2}" for number in range(201))
    datacenter = kubermatic.Datacenter(
        kubermatic.RANGE, "10.0.0.0/22", allocationRange=201, excludeRanges=every_second
    )
    lacks_one = _make_kkp_allocation("young", "dc", "10.0.3.0-10.0.3.199")
    return _make_kkp_case(datacenter, [lacks_one])


def make_kkp_cluster_that_moves_to_a_datacenter_with_too_little() -> Case:
    """Return a user cluster of KKP that moves to a datacenter with too few addresses."""
    datacenter = kubermatic.Datacenter(
        kubermatic.RANGE,
        "10.0.0.0/26",
        allocationRange=10,
        excludeRanges=("10.0.0.8-10.0.0.63",),
    )
    moves = _make_kkp_allocation("old", "elsewhere", "10.0.0.0-10.0.0.3")
    lacks_two = _make_kkp_allocation("young", "dc", "10.0.0.20-10.0.0.27")
    return _make_kkp_case(datacenter, [moves, lacks_two])


def _make_metadata(name: str, namespace: str = "ns") -> ObjectMeta:
    """Return the metadata of an object."""
    return ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}", resourceVersion="1")


def _make_kkp_allocation(
    cluster: str, datacenter: str, addresses: str
) -> kubermatic.IPAMAllocation:
    """Return the IPAMAllocation of a user cluster, in a datacenter."""
    spec = kubermatic.AllocationSpec(dc=datacenter, type=kubermatic.RANGE, addresses=(addresses,))
    return kubermatic.IPAMAllocation(_make_metadata("pool", f"cluster-{cluster}"), spec)


def _make_kkp_case(
    datacenter: kubermatic.Datacenter, allocations: Sequence[kubermatic.IPAMAllocation]
) -> Case:
    """Return the case of the clusters `old`, which is refused, and `young`, in a datacenter."""
    find = {
        make_holder(allocation.metadata.namespace, "pool"): allocation
        for allocation in allocations
    }.get
    clusters = [
        kubermatic.KkpCluster(
            _make_metadata(name, ""),
            kubermatic.KkpClusterSpec(kubermatic.CloudSpec("dc")),
            kubermatic.ClusterStatus(namespaceName=f"cluster-{name}"),
        )
        for name in ("old", "young")
    ]
    by_namespace = {cluster.namespace: cluster for cluster in clusters}
    space = parse_space(datacenter)
    in_datacenter = [allocation for allocation in allocations if allocation.spec.dc == "dc"]
    holdings = compute_holdings(
        "pool",
        {"dc": space},
        allocations=in_datacenter,
        find_cluster=by_namespace.get,
        namespaces=by_namespace,
    )
    content = PoolContent(
        "pool",
        {"dc": DatacenterContent(space)},
        holdings=holdings,
        find=find,
        find_cluster=by_namespace.get,
    )
    refused, fitting = (
        ClusterAsker(cluster, find(make_holder(cluster.namespace, "pool"))) for cluster in clusters
    )
    return Case(holdings, ClusterTaker(content), refused=refused, fitting=fitting)


@pytest.mark.parametrize(
    "make_case",
    [
        make_network_pool_whose_second_family_is_full,
        make_claim_whose_ipaddress_is_of_another_claim,
        make_vitistack_address_that_is_requested_outside_its_network,
        make_kkp_cluster_that_needs_too_many_parts,
        make_kkp_cluster_that_moves_to_a_datacenter_with_too_little,
    ],
)
def test_a_refused_request_takes_nothing_and_does_not_change_what_the_next_one_gets(
    make_case: Callable[[], Case],
) -> None:
    undisturbed, case = make_case(), make_case()
    with undisturbed.holdings.roll_back_at_exit():
        expected = undisturbed.taker.take(undisturbed.fitting)
    assert expected is not None
    spaces = [case.holdings.get_space(name) for name in case.holdings.layouts]
    with case.holdings.roll_back_at_exit():
        before = [space.copy_state() for space in spaces]
        with pytest.raises(Refused):
            case.taker.take(case.refused)
        assert [space.copy_state() for space in spaces] == before
        assert case.taker.take(case.fitting) == expected
