"""Owner references: which owners an object may have."""

from typing import Any

import pytest

from controller.client import Client
from controller.meta import Key, ObjectMeta
from controller.owners import with_owner
from controller.resource import Resource
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS, Widget

REGIONS = Resource("example.com", "v1", "Region", "regions", Widget, namespaced=False)
OWNER = Widget(ObjectMeta(name="a", namespace="default", uid="u", resourceVersion="1"))
BODY: dict[str, Any] = {"metadata": {"name": "eu"}}


def test_a_namespaced_owner_of_a_cluster_scoped_object_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Region eu is cluster-scoped .* Widget a in namespace"):
        with_owner(BODY, OWNER, WIDGETS, child=REGIONS)


async def test_a_cluster_scoped_object_with_a_namespaced_owner_is_not_created_or_applied() -> None:
    store = Store()
    client, body = Client(StoreTransport(store)), with_owner(BODY, OWNER, WIDGETS)
    with pytest.raises(ValueError, match="Region eu is cluster-scoped"):
        await client.create(REGIONS, "", body)
    with pytest.raises(ValueError, match="Region eu is cluster-scoped"):
        await client.apply(REGIONS, Key("", "eu"), body, manager="test")
    assert not (await client.list(REGIONS)).items


def test_other_owners_are_accepted() -> None:
    region = Widget(ObjectMeta(name="eu", uid="r", resourceVersion="1"))
    for body, owner, kind, child in (
        (BODY, OWNER, WIDGETS, WIDGETS),
        (BODY, region, REGIONS, REGIONS),
        (BODY, region, REGIONS, WIDGETS),
    ):
        owned = with_owner(body, owner, kind, child=child)
        assert owned["metadata"]["ownerReferences"][0]["uid"] == owner.metadata.uid
