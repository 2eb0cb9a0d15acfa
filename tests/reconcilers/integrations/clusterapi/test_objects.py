"""Reading Cluster API's objects once, as commands do."""

from typing import Any, cast

from controller.client import Client
from controller.codec import Page
from controller.errors import Forbidden
from controller.meta import ObjectMeta
from controller.resource import Resource
from reconcilers.integrations.clusterapi.api import IPAddress
from reconcilers.integrations.clusterapi.objects import fill_caches, read
from reconcilers.integrations.core.scopedlists import NotRead, ScopedLists


class Answers:
    """A cluster that serves all kinds, of which one may not be read."""

    def __init__(self, refused: str) -> None:
        self._refused = refused

    async def is_served(self, resource: Resource[Any]) -> bool:
        return resource.version != "v1beta1"

    async def list(self, resource: Resource[Any], *, namespace: str = "") -> Page[Any]:
        if resource.kind == self._refused:
            raise Forbidden(403, "Forbidden", f"{resource.plural} in {namespace}")
        stored = (IPAddress(ObjectMeta("a", "b")),) if resource.kind == "IPAddress" else ()
        return Page(stored, 7, {})


def lists(refused: str) -> ScopedLists:
    """Return lists of a server that refuses to list a kind."""
    return ScopedLists(cast("Client", Answers(refused)), "")


async def test_who_may_not_read_claims_is_shown_the_rest() -> None:
    read_objects = await read(lists("IPAddressClaim"))
    assert [address.metadata.name for address in read_objects.by_kind["IPAddress"]] == ["a"]
    assert read_objects.not_read == (NotRead("ipaddressclaims.ipam.cluster.x-k8s.io"),)


async def test_clusters_that_may_not_be_read_are_not_taken_for_missing() -> None:
    assert fill_caches(await read(lists("Cluster"))).clusters is None


async def test_who_may_not_read_pools_of_the_whole_cluster_sees_the_rest() -> None:
    read_objects = await read(lists("GlobalInClusterIPPool"))
    assert [address.metadata.name for address in read_objects.by_kind["IPAddress"]] == ["a"]
    assert [*fill_caches(read_objects).pools["GlobalInClusterIPPool"]] == []
