"""Reading Cluster API's objects once, as commands do."""

from typing import Any, cast

from controller.client import Client
from controller.codec import Page
from controller.errors import Forbidden
from controller.meta import ObjectMeta
from controller.resource import Resource
from reconcilers.integrations.clusterapi.api import IPAddress
from reconcilers.integrations.clusterapi.objects import fill_caches, read_objects
from reconcilers.integrations.core.objects import ObjectsByKind
from reconcilers.integrations.core.scopedlists import NotRead, ScopedLists


class RefusingClient:
    """A client of a server with IPAddress `a`, which may not list the objects of one kind."""

    def __init__(self, refused_kind: str) -> None:
        self._refused_kind = refused_kind

    async def is_served(self, resource: Resource[Any]) -> bool:
        """Return that all kinds are served, but not in version v1beta1."""
        return resource.version != "v1beta1"

    async def list(self, resource: Resource[Any], *, namespace: str = "") -> Page[Any]:
        """Return the objects of a kind; raise Forbidden for the refused kind."""
        if resource.kind == self._refused_kind:
            raise Forbidden(403, "Forbidden", f"{resource.plural} in {namespace}")
        stored = (IPAddress(ObjectMeta("a", "b")),) if resource.kind == "IPAddress" else ()
        return Page(stored, 7, {})


async def read_without(refused_kind: str) -> ObjectsByKind:
    """Read all objects as a command does for a user who may not list a kind."""
    return await read_objects(ScopedLists(cast("Client", RefusingClient(refused_kind)), ""))


async def test_a_user_who_may_not_list_claims_is_shown_ipaddresses() -> None:
    read_objects = await read_without("IPAddressClaim")
    assert [address.metadata.name for address in read_objects.by_kind["IPAddress"]] == ["a"]
    assert read_objects.not_read == (NotRead("ipaddressclaims.ipam.cluster.x-k8s.io"),)


async def test_clusters_that_may_not_be_listed_do_not_count_as_missing() -> None:
    assert fill_caches(await read_without("Cluster")).clusters is None


async def test_a_user_who_may_not_list_pools_of_the_whole_cluster_is_shown_ipaddresses() -> None:
    read_objects = await read_without("GlobalInClusterIPPool")
    assert [address.metadata.name for address in read_objects.by_kind["IPAddress"]] == ["a"]
    assert [*fill_caches(read_objects).pools["GlobalInClusterIPPool"]] == []
