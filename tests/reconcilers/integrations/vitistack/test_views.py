"""The metrics of networks say the same as the commands do."""

from typing import Any, cast

from controller.client import Client
from reconcilers.integrations.core.objects import from_bodies
from reconcilers.integrations.vitistack import caches, gauges
from reconcilers.integrations.vitistack.api import KINDS
from reconcilers.integrations.vitistack.contents import list_contents
from reconcilers.integrations.vitistack.picture import make_picture
from reconcilers.integrations.vitistack.reading import VitistackReader
from tests.clock import VirtualClock

BORN = "2020-01-01T00:00:00Z"
Body = dict[str, Any]


def vitistack(kind: str, name: str, spec: Body, status: Body) -> Body:
    meta = {"name": name, "namespace": "n", "creationTimestamp": BORN}
    head = {"apiVersion": "vitistack.io/v1alpha2", "kind": kind, "metadata": meta}
    return {**head, "spec": spec, "status": status}


def network(name: str, first: str, last: str) -> Body:
    static = {"ipv4CIDR": "10.3.0.0/24", "ipv4Gateway": "10.3.0.1"}
    static |= {"ipv4RangeStart": first, "ipv4RangeEnd": last}
    spec = {"ipAllocation": {"type": "static", "static": static}}
    return vitistack("NetworkNamespace", name, spec=spec, status={})


def request(network: str, name: str, address: str = "") -> Body:
    spec = {"networkNamespaceName": network, "networkConfigurationName": "vm"}
    status = {"phase": "Allocated", "address": address} if address else {}
    return vitistack("IPAllocation", name, spec=spec, status=status)


def test_figures_of_kept_contents_are_those_of_all_objects() -> None:
    clock = VirtualClock()
    bodies = [
        network("net", "10.3.0.10", "10.3.0.12"),
        network("broken", "10.3.0.9", "10.3.0.2"),
        vitistack("NetworkNamespace", "other", spec={"ipAllocation": {"type": "dhcp"}}, status={}),
        request("net", "a", "10.3.0.10"),
        request("net", "outside", "10.3.0.99"),
        request("net", "waits"),
        request("broken", "waits-too"),
    ]
    read_objects = from_bodies(
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
