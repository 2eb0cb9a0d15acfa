"""What is shown of pools to a user who may read one namespace only."""

from datetime import UTC, datetime

import pytest

from reconcilers.integrations.core.platforms import NetworkPools
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.poolkinds import as_readable, get_holder_kinds
from reconcilers.integrations.views import from_manifests
from reconcilers.pictures.documents import build_map_document, build_pool_document
from reconcilers.pictures.extents import AddressState
from reconcilers.pictures.poolpicture import PoolPicture
from tests.reconcilers.cli import test_platforms as platforms
from tests.reconcilers.cli.test_claims import make_ip_pool, make_saved_object

GLOBAL_SPEC = {"addresses": ["10.72.0.10-10.72.0.20"], "prefix": 24}
OBJECTS = (
    make_ip_pool("own", "10.0.0.10-10.0.0.13"),
    make_saved_object("GlobalInClusterIPPool", "whole", spec=GLOBAL_SPEC, version="v1alpha2"),
    platforms.make_ipam_pool("metallb", east=platforms.RANGE),
    platforms.make_network(),
)
PICTURES: dict[str, PoolPicture] = {
    pool.name.kind: pool
    for pool in from_manifests(
        OBJECTS, "b", pools=NetworkPools(), now=datetime(2026, 1, 1, tzinfo=UTC)
    ).pictures
}
"""The picture of a pool of each kind, for a user who may read everything."""
NAMESPACES = {"InClusterIPPool": "b", "NetworkNamespace": "dc"}
"""The namespace of each pool that is not of the whole cluster."""


def limit_to_namespace(kind: str, namespace: str) -> list[NotRead]:
    """Return the limits of a user who may read one namespace only.

    Args:
        kind: the kind of a pool; the limits are on the kinds that hold its addresses.
        namespace: the namespace that the user may read.
    """
    return [NotRead(name, namespace) for name in sorted(get_holder_kinds()[kind])]


@pytest.mark.parametrize("kind", PICTURES)
def test_only_the_total_of_a_pool_is_shown_to_a_user_of_another_namespace(kind: str) -> None:
    limits = limit_to_namespace(kind, "elsewhere")
    pool = as_readable(PICTURES[kind], limits)
    document = build_map_document(pool)
    [family] = document["families"]
    assert document["notRead"] == [
        f"{limit.kind} of other namespaces than elsewhere" for limit in limits
    ]
    assert family["total"] > 0
    assert (family["available"], family["allocated"], document["waiting"]) == (None, None, None)
    states = {extent.state for extent in pool.families[0].extents}
    assert AddressState.UNKNOWN in states
    assert AddressState.FREE not in states


@pytest.mark.parametrize("kind", NAMESPACES)
def test_all_figures_of_a_pool_are_shown_to_a_user_of_its_namespace(kind: str) -> None:
    limits = limit_to_namespace(kind, NAMESPACES[kind])
    assert build_pool_document(as_readable(PICTURES[kind], limits)) == build_pool_document(
        PICTURES[kind]
    )


@pytest.mark.parametrize("kind", ["GlobalInClusterIPPool", "IPAMPool"])
@pytest.mark.parametrize("namespace", ["b", "dc"])
def test_figures_of_a_pool_of_the_whole_cluster_are_unknown_to_a_user_of_one_namespace(
    kind: str, namespace: str
) -> None:
    assert as_readable(PICTURES[kind], limit_to_namespace(kind, namespace)).not_read
