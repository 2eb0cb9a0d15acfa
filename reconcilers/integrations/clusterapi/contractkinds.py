"""Which kinds of Cluster API's IPAM contract are served, each in its newest served version."""

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
    """The served kinds of IPAddressClaims, IPAddresses and Clusters; None if a kind is not served.

    These are the kinds of Cluster API's IPAM contract, by which IPAM providers and machines agree.
    """

    claims: Resource[IPAddressClaim] | None = None
    addresses: Resource[IPAddress] | None = None
    clusters: Resource[Cluster] | None = None


async def find_contract_kinds(look: "ServedKindsLook") -> ContractKinds:
    """Return the kinds that the API server serves.

    Args:
        look: asks the API server. Afterwards the caller has to call `look.check_complete`, because
            a kind may be missing here only because it is unknown whether it is served.
    """
    versions = api.CONTRACT_VERSIONS
    return ContractKinds(
        claims=await look.find_first_served(map(api.get_claim_kind, versions)),
        addresses=await look.find_first_served(map(api.get_address_kind, versions)),
        clusters=await look.find_first_served(map(api.get_cluster_kind, versions)),
    )


def pick_contract_kinds(served_kinds: Collection[Resource[Object]]) -> ContractKinds:
    """Return the kinds of claims and IPAddresses that a collection of served kinds contains."""

    def pick(versions: Iterable[Resource[T]]) -> Resource[T] | None:
        """Return the first served version of a kind; None if no version is served."""
        return next((kind for kind in versions if kind in served_kinds), None)

    versions = api.CONTRACT_VERSIONS
    return ContractKinds(
        claims=pick(map(api.get_claim_kind, versions)),
        addresses=pick(map(api.get_address_kind, versions)),
    )
