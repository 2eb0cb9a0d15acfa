"""Finds out whether Cilium's agents announce the addresses of Services to the network.

LB-IPAM hands out addresses. Agents announce them, by ARP and NDP or by BGP, if a policy or an
advertisement exists. Without such an object, no address is reachable.
"""

from controller.client import Client
from controller.errors import Forbidden, NotFound
from controller.meta import MetadataOnly
from controller.resource import Resource


def _make_kind(version: str, kind: str, plural: str) -> Resource[MetadataOnly]:
    """Return a cluster-scoped kind of Cilium, of whose objects only the existence matters."""
    return Resource("cilium.io", version, kind, plural, MetadataOnly, namespaced=False)


_ANNOUNCERS = (
    _make_kind("v2alpha1", "CiliumL2AnnouncementPolicy", "ciliuml2announcementpolicies"),
    _make_kind("v2", "CiliumBGPAdvertisement", "ciliumbgpadvertisements"),
    _make_kind("v2alpha1", "CiliumBGPAdvertisement", "ciliumbgpadvertisements"),
    _make_kind("v2alpha1", "CiliumBGPPeeringPolicy", "ciliumbgppeeringpolicies"),
)
"""The kinds of objects that make agents announce addresses, in the versions of Cilium 1.18 on."""


async def find_announcement_problem(client: Client) -> str:
    """Return the sentence for a tenant in which nothing announces addresses.

    The selectors of these objects are not evaluated: which Services and machines they should
    select is known to people alone.

    Args:
        client: of the tenant.

    Returns:
        The sentence; empty if an object announces addresses, or if a kind cannot be read.

    Raises:
        ControllerError: the tenant did not answer.
    """
    for kind in _ANNOUNCERS:
        try:
            page = await client.list(kind)
        except NotFound:
            continue  # the version is not served
        except Forbidden:
            return ""  # there may be objects, so nothing is known
        if page.items:
            return ""
    return (
        "no CiliumL2AnnouncementPolicy and no CiliumBGPAdvertisement is in the tenant, so nothing"
        " outside reaches the addresses of its Services: create one"
    )
