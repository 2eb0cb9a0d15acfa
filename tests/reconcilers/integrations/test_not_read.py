"""Who may read metal3's kinds and not all that decides about them."""

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


def _serve() -> FakeApi:
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


async def _read(fake: FakeApi, *forbidden: Resource[Any]) -> Views:
    refused = Forbidden(403, "Forbidden", "not for you")
    for kind in forbidden:
        fake.fail(refused, times=9, method="LIST", resource=kind.full_name)
    now = datetime.now(UTC)
    return await views.from_cluster(Client(fake), "", pools=NetworkPools(), now=now)


async def test_what_may_be_read_is_in_order() -> None:
    all_views = await _read(_serve())
    assert not all_views.troubles
    [pool] = all_views.pictures
    assert not pool.not_read


@pytest.mark.parametrize("kind", [api.POOLS, api.ADDRESSES])
async def test_what_may_not_be_read_is_not_missing(kind: Resource[Any]) -> None:
    all_views = await _read(_serve(), kind)
    assert [trouble.sentence for trouble in all_views.troubles] == []


@pytest.mark.parametrize("kind", [CONTRACT_CLAIMS, CONTRACT_ADDRESSES])
async def test_claims_of_cluster_api_that_may_not_be_read_leave_an_ippool_unknown(
    kind: Resource[Any],
) -> None:
    all_views = await _read(_serve(), kind)
    [pool] = all_views.pictures
    assert pool.not_read
