"""What happens before the first request: what every server holds is made, or repaired."""

from collections.abc import Callable, Iterable
from functools import partial

from envtest.bootstrap.flows import FlowConditions, flow_schemas, priority_levels, service_range
from envtest.bootstrap.objects import namespaces, priority_classes
from envtest.bootstrap.policy import GROUP, Body, policy
from envtest.bootstrap.reconciling import is_protected, mended_binding, mended_role
from envtest.bootstrap.writing import Writer
from envtest.builtins.flowcontrol import FLOW_GROUP
from envtest.server.api import Api
from envtest.server.resource import Resource
from envtest.storage import Event


def bootstrap(api: Api, services: str) -> None:
    """Make what is missing, and mend the default roles and bindings.

    Args:
        api: the state.
        services: the range of services' addresses.
    """
    writer = Writer(api)
    for plural, group, bodies in (
        ("namespaces", "", namespaces()),
        ("priorityclasses", "scheduling.k8s.io", priority_classes()),
    ):
        resource = writer.find(group, plural)
        for body in bodies:
            if writer.get(resource, body["metadata"]) is None:
                writer.create(resource, body)
    for plural, group, objects in (
        ("prioritylevelconfigurations", FLOW_GROUP, priority_levels),
        ("flowschemas", FLOW_GROUP, flow_schemas),
        ("servicecidrs", "networking.k8s.io", partial(service_range, services)),
    ):
        _keep(api, writer, writer.find(group, plural), objects)
    FlowConditions(api).attach()
    for plural, body in policy():
        _settle(writer, writer.find(GROUP, plural), body)


def _keep(
    api: Api, writer: Writer, resource: Resource, objects: Callable[[], Iterable[Body]]
) -> None:
    """Make what is missing, and make it anew as soon as somebody deletes it."""

    def make() -> None:
        for body in objects():
            if writer.get(resource, body["metadata"]) is None:
                writer.create(resource, body)

    def notice(event: Event) -> None:
        if event.type == "DELETED":
            make()

    make()
    api.table(resource).listeners.append(notice)


def _settle(writer: Writer, resource: Resource, wanted: Body) -> None:
    live = writer.get(resource, wanted["metadata"])
    if live is None:
        writer.create(resource, wanted)
    elif is_protected(live):
        return
    elif "roleRef" not in wanted:
        writer.update(resource, live, mended_role(live, wanted))
    elif (mended := mended_binding(live, wanted)) is not None:
        writer.update(resource, live, mended)
    else:
        writer.delete(resource, live)
        writer.create(resource, wanted)
