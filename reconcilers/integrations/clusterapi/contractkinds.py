"""Which kinds of Cluster API's contract are served, each in the newest version that is."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from controller.meta import Object
from controller.resource import Resource
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import Cluster, IPAddress, IPAddressClaim

if TYPE_CHECKING:  # commands that read files need no discovery
    from reconcilers.integrations.core.discovery import ServedKindsLook

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class ContractKinds:
    """The kinds that are served; a kind is None where it is not.

    Args:
        addresses: IPAddresses.
    """

    claims: Resource[IPAddressClaim] | None = None
    addresses: Resource[IPAddress] | None = None
    clusters: Resource[Cluster] | None = None


async def find_contract_kinds(look: "ServedKindsLook") -> ContractKinds:
    """Return the kinds that are served, as discovery says."""
    versions = api.CONTRACT_VERSIONS
    return ContractKinds(
        claims=await look.first_served(map(api.claims, versions)),
        addresses=await look.first_served(map(api.addresses, versions)),
        clusters=await look.first_served(map(api.clusters, versions)),
    )


def pick_contract_kinds(served_kinds: Collection[Resource[Object]]) -> ContractKinds:
    """Return the kinds among those that are served."""

    def pick(versions: Iterable[Resource[T]]) -> Resource[T] | None:
        return next((kind for kind in versions if kind in served_kinds), None)

    versions = api.CONTRACT_VERSIONS
    return ContractKinds(
        claims=pick(map(api.claims, versions)),
        addresses=pick(map(api.addresses, versions)),
        clusters=pick(map(api.clusters, versions)),
    )
