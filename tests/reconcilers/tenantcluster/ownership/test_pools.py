"""The owner that a tenant's pool names, and the holders of the addresses of an unnamed pool."""

import random

import msgspec
import pytest

from allocator import AddressRange
from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.loadbalancers.metallb.kinds import IPAddressPool
from reconcilers.loadbalancers.metallb.projection import make_offer
from reconcilers.loadbalancers.ownernotes import find_owner
from reconcilers.tenantcluster.ownership.pools import find_holders
from tests.reconcilers import make


def _draw_range(chance: random.Random) -> tuple[str, str]:
    """Return the first and the last address of a random short range, of IPv4 or IPv6."""
    first = chance.randrange(60)
    last = first + chance.randrange(8)
    if chance.random() < 0.5:
        return f"10.40.0.{first}", f"10.40.0.{last}"
    return f"fd00::{first:x}", f"fd00::{last:x}"


@pytest.mark.parametrize("seed", range(200))
def test_the_holders_of_a_pool_are_the_clusters_whose_ranges_overlap_it(seed: int) -> None:
    chance = random.Random(seed)
    entries = [_draw_range(chance) for _ in range(chance.randrange(6))]
    meta = {"name": "default-pool", "namespace": "metallb-system"}
    spec = {"addresses": ["-".join(entry) for entry in entries]}
    pool = msgspec.convert({"metadata": meta, "spec": spec}, IPAddressPool)
    allocations = [
        make.allocation(f"one-{number}", tenant=f"team/{number}", held_range=_draw_range(chance))
        for number in range(8)
    ]
    spans = [AddressRange.parse(*entry) for entry in entries]
    assert find_holders(make_offer(pool), allocations) == {
        allocation.spec.tenantClusterRef.key
        for allocation in allocations
        if (held_range := statusranges.find_held_range(allocation)) is not None
        and any(map(held_range.overlaps, spans))
    }


def _make_pool(owner: str) -> IPAddressPool:
    annotations = {names.ANNOTATION_PROJECTION_OWNER: owner}
    return msgspec.convert({"metadata": {"name": "p", "annotations": annotations}}, IPAddressPool)


def test_a_pool_names_the_cluster_that_it_was_made_for() -> None:
    assert find_owner(_make_pool("team-a/lab.example")) == Key("team-a", "lab.example")


@pytest.mark.parametrize(
    "noted", ["team/..", "../team", "team/a/b", "/a", "team/", "team", "Team/a", f"t/{'a' * 300}"]
)
def test_an_owner_annotation_that_is_no_valid_name_counts_as_no_owner(noted: str) -> None:
    assert find_owner(_make_pool(noted)) is None
