"""What one change costs for each kind that hands out addresses, by what its pool has and lacks.

For each kind a whole replica works on the API of `controller.testing` in virtual time: caches,
queues, passes and writes. A pool is filled with copies of what the replica itself wrote for one
request. Measured is what a release and a request cost from the write of the user on, until nothing
is left to do: CPU time of this process, which the API takes a part of, and function calls, which
are nearly the same in each run, whatever else the machine does.

    python -m tests.bench kinds --kind claims --held 100 --held 100000 --waiting 10000
"""

import gc
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from statistics import median
from time import process_time
from typing import Any

import anyio
import click
import structlog

from allocator.addresses import format_address
from controller.resource import Resource
from controller.testing import clock
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API, KUBERMATIC, METAL3, VITISTACK
from reconcilers.configuration.settings import Settings, VitistackSettings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.kubermatic import api as kkp
from reconcilers.integrations.metal3 import api as metal3
from reconcilers.integrations.vitistack import api as vitistack
from tests.calls import calls_of
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster, open_platform_cluster
from tests.reconcilers.test_sharing import NAMESPACE

FIRST = (10 << 24) + 16
"""The address of the first request, as a number."""
TURNS = 10_000_000
"""Turns of the event loop in which a replica reads what it has to."""
ROUNDS = 10
SECONDS = 3
"""Virtual time that a change is given: the replica has nothing left to do afterwards."""
FULL = 16
"""Requests that a pool has room for in which others wait."""
POOL, MODEL, GATEWAY = "p", "r-000000", "10.0.0.1"

ChangeRequest = Callable[[PlatformCluster, str], Awaitable[None]]
"""Creates or releases the request of a name."""


@dataclass(frozen=True, slots=True)
class RequestKind:
    """A kind of requests, and how users make and release them.

    Args:
        settings: of the replica.
        kinds: the kinds that the API serves beside ours.
        create_pool: creates the pool with room for that many requests.
        create: creates a request of that name.
        kind: of the object that a user deletes to release a request.
        written: the kinds of the objects that a request consists of once it is served.
        release: releases a request; None deletes its object.
        full: how many requests the small pool has room for in which others wait.
    """

    settings: Settings
    kinds: Sequence[Resource[Any]]
    create_pool: Callable[[PlatformCluster, int], Awaitable[None]]
    create: ChangeRequest
    kind: Resource[Any]
    written: Sequence[Resource[Any]]
    release: ChangeRequest | None = None
    full: int = FULL


def _find_last_address(room: int) -> str:
    return format_address(FIRST + room - 1, 4)


async def _create_network_pool(cluster: PlatformCluster, room: int) -> None:
    cidr = "10.0.0.0/12" if room > FULL else "10.0.0.16/28"
    await cluster.create_object(NETWORK_POOL, POOL, {"cidr": cidr})


async def _create_allocation(cluster: PlatformCluster, name: str) -> None:
    spec = {
        "poolRef": {"name": POOL},
        "tenantClusterRef": {"name": name, "namespace": "team"},
        "type": "loadbalancer",
        "count": 1,
    }
    await cluster.create_object(IP_ALLOCATION, name, spec)


async def _create_in_cluster_pool(cluster: PlatformCluster, room: int) -> None:
    addresses = [f"{format_address(FIRST, 4)}-{_find_last_address(room)}"]
    spec = {"addresses": addresses, "prefix": 8}
    await cluster.create_object(clusterapi.IN_CLUSTER_IP_POOL, POOL, spec)


async def _create_claim(cluster: PlatformCluster, name: str, *, of: Resource[Any]) -> None:
    ref = {"apiGroup": of.group, "kind": of.kind, "name": POOL}
    await cluster.create_object(CLAIMS, name, {"poolRef": ref})


async def _create_ipam_pool(cluster: PlatformCluster, room: int) -> None:
    cidr = "10.0.0.0/12" if room > FULL else "10.0.0.16/28"
    datacenter = {"type": "range", "poolCidr": cidr, "allocationRange": 1}
    await cluster.create_object(kkp.POOLS, POOL, {"datacenters": {"dc": datacenter}})


async def _create_cluster(cluster: PlatformCluster, name: str) -> None:
    status = {"namespaceName": f"cluster-{name}"}
    await cluster.create_object(kkp.CLUSTERS, name, {"cloud": {"dc": "dc"}}, status=status)


async def _release_cluster(cluster: PlatformCluster, name: str) -> None:
    """Delete a Cluster and its IPAMAllocation, as KKP does."""
    await cluster.delete(kkp.CLUSTERS, name)
    await cluster.delete(kkp.ALLOCATIONS, POOL, f"cluster-{name}")


async def _create_network(cluster: PlatformCluster, room: int) -> None:
    cidr = "10.0.0.0/12" if room > FULL else "10.0.0.0/28"
    static = {"ipv4CIDR": cidr, "ipv4Gateway": GATEWAY, "ttlSeconds": 86_400}
    spec = {"ipAllocation": {"type": "static", "provider": "us", "static": static}}
    status = {"provisioningPhase": "Ready"}
    await cluster.create_object(vitistack.NETWORKS, POOL, spec, status=status)


async def _create_vitistack_allocation(cluster: PlatformCluster, name: str) -> None:
    spec = {"networkNamespaceName": POOL, "networkConfigurationName": f"no-{name}"}
    await cluster.create_object(vitistack.ALLOCATIONS, name, spec)


async def _create_metal3_pool(cluster: PlatformCluster, room: int) -> None:
    entry = {"start": format_address(FIRST, 4), "end": _find_last_address(room)}
    await cluster.create_object(
        metal3.POOLS, POOL, {"namePrefix": "p", "pools": [entry], "prefix": 8}
    )


async def _create_metal3_claim(cluster: PlatformCluster, name: str) -> None:
    await cluster.create_object(
        metal3.CLAIMS, name, {"pool": {"name": POOL, "namespace": NAMESPACE}}
    )


CLAIMS, ADDRESSES, CLUSTERS = (
    clusterapi.get_claim_kind("v1beta2"),
    clusterapi.get_address_kind("v1beta2"),
    clusterapi.get_cluster_kind("v1beta2"),
)
OF_CLUSTER_API = (
    *(CLAIMS, ADDRESSES, CLUSTERS),
    *(clusterapi.IN_CLUSTER_IP_POOL, clusterapi.GLOBAL_IP_POOL),
)
WITH_CLAIMS = Settings(integration=(CLUSTER_API,))
KINDS = {
    "allocations": RequestKind(
        Settings(),
        (),
        create_pool=_create_network_pool,
        create=_create_allocation,
        kind=IP_ALLOCATION,
        written=(IP_ALLOCATION,),
    ),
    "claims": RequestKind(
        WITH_CLAIMS,
        OF_CLUSTER_API,
        create_pool=_create_in_cluster_pool,
        create=partial(_create_claim, of=clusterapi.IN_CLUSTER_IP_POOL),
        kind=CLAIMS,
        written=(CLAIMS, ADDRESSES),
    ),
    "claims-of-networkpool": RequestKind(
        WITH_CLAIMS,
        OF_CLUSTER_API,
        create_pool=_create_network_pool,
        create=partial(_create_claim, of=NETWORK_POOL),
        kind=CLAIMS,
        written=(CLAIMS, ADDRESSES),
    ),
    "kkp": RequestKind(
        Settings(integration=(KUBERMATIC,)),
        kkp.KINDS,
        create_pool=_create_ipam_pool,
        create=_create_cluster,
        kind=kkp.CLUSTERS,
        written=(kkp.CLUSTERS, kkp.ALLOCATIONS),
        release=_release_cluster,
    ),
    "vitistack": RequestKind(
        Settings(integration=(VITISTACK,), vitistack=VitistackSettings(provider="us")),
        vitistack.KINDS,
        create_pool=_create_network,
        create=_create_vitistack_allocation,
        kind=vitistack.ALLOCATIONS,
        written=(vitistack.ALLOCATIONS,),
        full=13,
    ),
    "metal3": RequestKind(
        Settings(integration=(METAL3,)),
        (metal3.POOLS, metal3.CLAIMS, metal3.ADDRESSES, *OF_CLUSTER_API[:3]),
        create_pool=_create_metal3_pool,
        create=_create_metal3_claim,
        kind=metal3.CLAIMS,
        written=(metal3.CLAIMS, metal3.ADDRESSES),
    ),
}


async def _store_copies(cluster: PlatformCluster, requests: RequestKind, size: int) -> None:
    """Store copies of what a replica wrote for one request, until as many are held."""
    await requests.create(cluster, MODEL)
    await cluster.pass_by(SECONDS)
    stored = [
        (kind, obj)
        for kind in requests.written
        for obj in cluster.api.list_objects(kind)
        if MODEL in json.dumps(obj)
    ]
    assert len(stored) == len(requests.written), "the first request is not served"
    cluster.stop_replicas()
    await cluster.pass_by(1)
    [model] = {address for _, obj in stored for address in _find_addresses(obj)}
    for number in range(1, size):
        for position, (kind, obj) in enumerate(stored):
            revision = 1_000_000 + number * len(stored) + position
            cluster.api.restore_object(
                kind, _make_copy(obj, model, number=number, revision=revision)
            )


def _find_addresses(obj: Json) -> set[str]:
    """Return the addresses that an object names, the gateway excepted."""
    words = json.dumps(obj).replace('"', " ").replace("/", " ").replace("-", " ").split()
    return {word.strip(",") for word in words if word.startswith("10.")} - {GATEWAY}


def _make_copy(obj: Json, model: str, number: int, revision: int) -> Json:
    """Return a copy of a served object for another request and with another address."""
    address = str(ip_address(model) + number)
    content = json.dumps(obj).replace(MODEL, _make_name(number)).replace(model, address)
    content = content.replace(model.replace(".", "-"), address.replace(".", "-"))
    content = content.replace(
        "00000000-0000-0000", f"00000000-{number >> 16:04x}-{number & 0xFFFF:04x}"
    )
    copied: Json = json.loads(content)
    copied["metadata"]["resourceVersion"] = str(revision)
    return copied


def _make_name(number: int) -> str:
    return f"r-{number:06}"


async def _measure(cluster: PlatformCluster, change: Callable[[int], Awaitable[None]]) -> str:
    """Return the cost of a change: the median of its CPU time, and its calls in one more round.

    The median leaves out the round in which orphans are looked for among all allocations.
    """

    async def play(number: int) -> None:
        await change(number)
        await cluster.pass_by(SECONDS)

    spent = []
    for number in range(ROUNDS):
        begun = process_time()
        await play(number)
        spent.append(process_time() - begun)
    calls = await calls_of(partial(play, ROUNDS))
    return f"{1000 * median(spent):9.2f} ms {calls:9,} calls"


async def _do_nothing(_: int) -> None:
    """Change nothing."""


async def _measure_pool(name: str, size: int, waiting: int) -> None:
    """Print what changes cost in a pool where so many requests hold addresses, or wait."""
    requests = KINDS[name]
    async with open_platform_cluster(requests.settings, *requests.kinds) as cluster:
        await requests.create_pool(cluster, FULL if waiting else size + ROUNDS + 1)
        await cluster.pass_by(SECONDS)
        await _store_copies(cluster, requests, requests.full if waiting else size)
        for number in range(waiting):
            await requests.create(cluster, f"waits-{number:06}")
        await cluster.restart_replica()
        await cluster.pass_by(60)
        gc.collect()
        gc.freeze()  # or a collection of all objects falls into one of the rounds

        async def release(number: int) -> None:
            await (requests.release or _make_deletion(requests))(cluster, _make_name(number))

        async def ask(number: int) -> None:
            await requests.create(cluster, f"new-{number:06}")

        state = f"{waiting:>7,} waiting" if waiting else f"{size:>7,} held   "
        steps = {"nothing": _do_nothing, "a release": release, "a request": ask}
        for step, change in steps.items():
            click.echo(f"{name:22} {state}  {step:10}{await _measure(cluster, change)}")
        for number in range(requests.full if waiting else 0):
            assert not _is_served(cluster, requests, f"waits-{waiting - 1 - number:06}")
        is_served = _is_served(cluster, requests, f"new-{ROUNDS:06}")
        assert is_served != bool(waiting), "a request was not served"


def _make_deletion(requests: RequestKind) -> ChangeRequest:
    async def delete(cluster: PlatformCluster, name: str) -> None:
        await cluster.delete(requests.kind, name)

    return delete


def _is_served(cluster: PlatformCluster, requests: RequestKind, name: str) -> bool:
    """Return whether the objects of a request name an address."""
    objects = [obj for kind in requests.written for obj in cluster.api.list_objects(kind)]
    return any(_find_addresses(obj) for obj in objects if name in json.dumps(obj["metadata"]))


@click.command()
@click.option(
    "--kind", "kinds", type=click.Choice(list(KINDS)), multiple=True, help="Default: all."
)
@click.option(
    *("--held", "helds"),
    type=click.IntRange(min=FULL),
    multiple=True,
    default=(100, 10_000),
    show_default=True,
    help="Requests that hold addresses; several in turn.",
)
@click.option(
    *("--waiting", "waitings"),
    type=click.IntRange(min=3 * FULL),
    multiple=True,
    default=(100, 1_000),
    show_default=True,
    help="Requests that wait in a full pool; several in turn.",
)
def main(kinds: Sequence[str], helds: Sequence[int], waitings: Sequence[int]) -> None:
    """Measure what one change costs, for each kind that hands out addresses."""
    clock.MOST_TURNS = TURNS
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        for name in kinds or KINDS:
            for size in helds:
                anyio.run(_measure_pool, name, size, 0)
            for waiting in waitings:
                anyio.run(_measure_pool, name, 0, waiting)
    finally:
        structlog.configure(**before)


def run(options: Sequence[str] = ()) -> None:
    """Print what changes cost."""
    main(list(options), standalone_mode=False)
