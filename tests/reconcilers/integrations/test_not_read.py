"""What a user is shown of metal3's pools who may not list all kinds of metal3 and Cluster API."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.client import Client
from controller.errors import Forbidden
from controller.resource import Resource
from controller.testing.api import FakeApi
from reconcilers.integrations import views
from reconcilers.integrations.clusterapi.api import ADDRESSES as CONTRACT_ADDRESSES
from reconcilers.integrations.clusterapi.api import CLAIMS as CONTRACT_CLAIMS
from reconcilers.integrations.clusterapi.api import KINDS as CONTRACT_KINDS
from reconcilers.integrations.core.platforms import NetworkPools
from reconcilers.integrations.core.views import Views
from reconcilers.integrations.metal3 import api
from tests.clock import VirtualClock


def _serve_claim() -> FakeApi:
    """Return a server with IPPool `p`, and IPClaim `c` with an IPAddress of another name."""
    fake = FakeApi(VirtualClock())
    kinds: tuple[Resource[Any], ...] = (*api.KINDS, *CONTRACT_KINDS)
    for kind in kinds:
        fake.serve(kind)
    fake.put_object(
        api.POOLS,
        {
            "metadata": {"name": "p", "namespace": "home"},
            "spec": {"namePrefix": "p", "pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}]},
        },
    )
    fake.put_object(
        api.CLAIMS,
        {
            "metadata": {"name": "c", "namespace": "home"},
            "spec": {"pool": {"name": "p"}},
            "status": {"address": {"name": "other-name", "namespace": "home"}},
        },
    )
    fake.put_object(
        api.ADDRESSES,
        {
            "metadata": {"name": "other-name", "namespace": "home"},
            "spec": {"address": "10.0.0.5", "pool": {"name": "p"}, "claim": {"name": "c"}},
        },
    )
    return fake


async def _read_views(fake: FakeApi, *forbidden: Resource[Any]) -> Views:
    """Read the objects as a command does for a user who may not list some kinds."""
    refused = Forbidden(403, "Forbidden", "not for you")
    for kind in forbidden:
        fake.fail(refused, times=9, method="LIST", resource=kind.full_name)
    now = datetime.now(UTC)
    return await views.from_cluster(Client(fake), "", pools=NetworkPools(), now=now)


async def test_a_user_who_may_list_all_kinds_sees_no_trouble() -> None:
    views_of_user = await _read_views(_serve_claim())
    assert not views_of_user.troubles
    [pool] = views_of_user.pictures
    assert not pool.not_read


@pytest.mark.parametrize("kind", [api.POOLS, api.ADDRESSES])
async def test_objects_of_a_kind_that_may_not_be_listed_are_not_reported_as_missing(
    kind: Resource[Any],
) -> None:
    views_of_user = await _read_views(_serve_claim(), kind)
    assert [trouble.sentence for trouble in views_of_user.troubles] == []


@pytest.mark.parametrize("kind", [CONTRACT_CLAIMS, CONTRACT_ADDRESSES])
async def test_an_ippool_counts_as_not_read_if_kinds_of_cluster_api_may_not_be_listed(
    kind: Resource[Any],
) -> None:
    views_of_user = await _read_views(_serve_claim(), kind)
    [pool] = views_of_user.pictures
    assert pool.not_read
