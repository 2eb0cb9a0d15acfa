"""The metrics of networks show the same figures as the commands."""

from typing import Any, cast

from controller.client import Client
from reconcilers.integrations.core.objects import decode_bodies
from reconcilers.integrations.vitistack import caches, gauges
from reconcilers.integrations.vitistack.api import KINDS
from reconcilers.integrations.vitistack.contents import list_contents
from reconcilers.integrations.vitistack.picture import make_picture
from reconcilers.integrations.vitistack.reading import VitistackReader
from tests.clock import VirtualClock

BORN = "2020-01-01T00:00:00Z"
Body = dict[str, Any]


def make_object(kind: str, name: str, spec: Body, status: Body) -> Body:
    """Return an object of vitistack in namespace `n`."""
    meta = {"name": name, "namespace": "n", "creationTimestamp": BORN}
    head = {"apiVersion": "vitistack.io/v1alpha2", "kind": kind, "metadata": meta}
    return {**head, "spec": spec, "status": status}


def make_network(name: str, first: str, last: str) -> Body:
    """Return a network that hands out a range."""
    static = {"ipv4CIDR": "10.3.0.0/24", "ipv4Gateway": "10.3.0.1"}
    static |= {"ipv4RangeStart": first, "ipv4RangeEnd": last}
    spec = {"ipAllocation": {"type": "static", "static": static}}
    return make_object("NetworkNamespace", name, spec=spec, status={})


def make_allocation(network: str, name: str, address: str = "") -> Body:
    """Return an IPAllocation in a network; it waits if `address` is empty."""
    spec = {"networkNamespaceName": network, "networkConfigurationName": "vm"}
    status = {"phase": "Allocated", "address": address} if address else {}
    return make_object("IPAllocation", name, spec=spec, status=status)


def test_metrics_of_networks_equal_the_figures_in_pictures() -> None:
    clock = VirtualClock()
    bodies = [
        make_network("net", "10.3.0.10", "10.3.0.12"),
        make_network("broken", "10.3.0.9", "10.3.0.2"),
        make_object(
            "NetworkNamespace", "other", spec={"ipAllocation": {"type": "dhcp"}}, status={}
        ),
        make_allocation("net", "a", "10.3.0.10"),
        make_allocation("net", "outside", "10.3.0.99"),
        make_allocation("net", "waits"),
        make_allocation("broken", "waits-too"),
    ]
    read_objects = decode_bodies(
        bodies, KINDS, namespace="n", now=clock.now(), fill_defaults=caches.fill_defaults
    )
    objects = caches.fill_caches(read_objects)
    pictures = [make_picture(contents) for contents in list_contents(objects)]
    figures = gauges.NetworkFigures(
        objects, VitistackReader(cast("Client", None), objects, clock=clock, patience=1.0)
    )
    kept = {figure.name.key.name: figure for figure in figures()}
    assert kept["net"] == next(
        picture.figures for picture in pictures if picture.name.key.name == "net"
    )
    [family] = kept["net"].families
    counts = (family.capacity.allocated, family.capacity.available, family.outside)
    assert (*counts, kept["net"].waiting) == (1, 2, 1, 1)
    assert kept["broken"].waiting == 1
    assert all(facts.waiting_since is not None for facts in kept.values())
