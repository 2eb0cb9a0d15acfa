"""A cluster in memory with our kinds and events, for the page to show."""

from typing import Any

from controller.clock import Clock
from controller.codec import encode
from controller.resource import Resource
from controller.testing import FakeApi
from reconcilers.api import names
from reconcilers.api.resources import (
    OWN_KINDS,
)
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.metal3 import api as metal3
from reconcilers.integrations.vitistack import api as vitistack
from reconcilers.ui.watched import READ_EVENTS

CLUSTER_API: tuple[Resource[Any], ...] = (
    clusterapi.get_claim_kind("v1beta2"),
    clusterapi.get_address_kind("v1beta2"),
    *clusterapi.POOLS,
)
PLATFORMS: tuple[Resource[Any], ...] = (
    *CLUSTER_API,
    *kubermatic.KINDS,
    *vitistack.KINDS,
    *metal3.KINDS,
)
KINDS: dict[tuple[str, str], Resource[Any]] = {
    (resource.group, resource.kind): resource
    for resource in (*OWN_KINDS.values(), READ_EVENTS, *PLATFORMS)
}
STORED_METADATA = ("name", "namespace", "annotations", "labels")


class Cluster(FakeApi):
    """An API server in memory with our kinds and events; objects are created with their status."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        for resource in OWN_KINDS.values():
            self.serve(resource, status=False)
        self.serve(READ_EVENTS, status=False, fields=("reportingController",))

    def serve_platforms(self, *kinds: Resource[Any]) -> None:
        """Serve kinds of other platforms from now on; without arguments, all PLATFORMS."""
        for resource in kinds or PLATFORMS:
            self.serve(resource, status=False)

    async def create(self, *bodies: dict[str, Any]) -> None:
        """Create objects of KINDS with the parts of their metadata in STORED_METADATA."""
        for body in bodies:
            resource = KINDS[body["apiVersion"].partition("/")[0], body["kind"]]
            meta = {
                name: part for name, part in body["metadata"].items() if name in STORED_METADATA
            }
            path = resource.build_collection_path(meta.get("namespace", ""))
            await self.request("POST", path, body=encode({**body, "metadata": meta}))

    async def delete(
        self, resource: Resource[Any], name: str, namespace: str = names.DEFAULT_NAMESPACE
    ) -> None:
        """Delete an object."""
        await self.request("DELETE", f"{resource.build_collection_path(namespace)}/{name}")


def make_event(
    name: str, reason: str, note: str, reporter: str = names.COMPONENT
) -> dict[str, Any]:
    """Return an Event about the IPAllocation `a`.

    Args:
        name: the name of the Event.
        reason: why it was sent, in one word.
        note: what happened, in a sentence.
        reporter: the controller that sent it.
    """
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": names.DEFAULT_NAMESPACE},
        "type": "Normal",
        "reason": reason,
        "note": note,
        "reportingController": reporter,
        "regarding": {
            "kind": "IPAllocation",
            "namespace": names.DEFAULT_NAMESPACE,
            "name": "a",
        },
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
