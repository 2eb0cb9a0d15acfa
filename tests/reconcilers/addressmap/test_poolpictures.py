"""Pictures of pools and tenants for users who may not read all objects that hold addresses."""

from collections.abc import Sequence

import pytest

from controller.meta import TracedMeta
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.pagedata import build_pool_documents
from reconcilers.addressmap.poolpictures import draw_pools
from reconcilers.addressmap.tenants import list_holdings
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec
from reconcilers.api.resources import IP_ALLOCATION, PROVIDER_CONFIG
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Views
from reconcilers.pictures.documents import build_pool_document
from reconcilers.pictures.extents import AddressState
from reconcilers.pictures.poolpicture import PoolPicture
from tests.reconcilers import make

SITE = NetworkPool(TracedMeta("site", "b"), NetworkPoolSpec("10.9.0.0/29"))
CLAIMS = api.get_claim_kind(api.CONTRACT_VERSIONS[0]).full_name
ADDRESSES = api.get_address_kind(api.CONTRACT_VERSIONS[0]).full_name
ALLOCATIONS = IP_ALLOCATION.full_name


def make_picture(*limits: NotRead) -> PoolPicture:
    """Return the picture of the pool SITE for a user who may not read what `limits` name."""
    objects = Objects(
        {SITE.metadata.key: SITE},
        {},
        clusters={},
        providers={},
        integrations=Views(not_read=limits),
    )
    (pool,) = draw_pools(objects)
    return pool


@pytest.mark.parametrize(
    "limits",
    [
        [NotRead(CLAIMS)],
        [NotRead(ADDRESSES)],
        [NotRead(ALLOCATIONS, "elsewhere")],
        [NotRead(PROVIDER_CONFIG.full_name), NotRead(CLAIMS, "elsewhere")],
    ],
)
def test_a_pool_is_unknown_if_a_kind_that_may_not_be_read_may_hold_its_addresses(
    limits: Sequence[NotRead],
) -> None:
    pool = make_picture(*limits)
    assert [extent.state for extent in pool.families[0].extents] == [AddressState.UNKNOWN]
    document = build_pool_document(pool)
    [figures] = document["families"]
    known = {name for name, value in figures.items() if value is not None}
    assert {"total", "cidr"} <= known
    assert known.isdisjoint({"allocated", "available", "largestFreeBlock", "utilizationPercent"})
    assert document["waiting"] is None
    assert document["notRead"] == [str(limits[-1])]
    assert [document["notRead"] for document in build_pool_documents(pool)] == [[str(limits[-1])]]


@pytest.mark.parametrize(
    "limits", [[], [NotRead(PROVIDER_CONFIG.full_name)], [NotRead(CLAIMS, "b")]]
)
def test_figures_of_a_pool_are_known_if_all_kinds_that_may_hold_its_addresses_are_read(
    limits: Sequence[NotRead],
) -> None:
    pool = make_picture(*limits)
    assert [extent.state for extent in pool.families[0].extents] == [AddressState.FREE]
    assert build_pool_document(pool)["families"][0]["available"] == 8
    assert "notRead" not in build_pool_document(pool)
    assert [document["notRead"] for document in build_pool_documents(pool)] == [[]]


@pytest.mark.parametrize("limit", [None, NotRead(ALLOCATIONS, "b")])
def test_a_tenant_whose_allocations_may_be_in_other_namespaces_has_no_known_figures(
    limit: NotRead | None,
) -> None:
    limits = [limit] if limit else []
    tenant = make.tenant()
    objects = Objects(
        {}, {}, clusters={tenant.metadata.key: tenant}, providers={}, not_read=limits
    )
    (holding,) = list_holdings(objects)
    assert list(holding.not_read) == limits
