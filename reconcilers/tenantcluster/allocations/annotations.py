"""Annotations of IPAllocations are written at the version that was judged."""

from collections.abc import Mapping

from controller.client import Client
from controller.meta import Version
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION


async def annotate(
    client: Client, allocation: IPAllocation, annotations: Mapping[str, str | None]
) -> None:
    """Set annotations of an allocation that is still as it was read; None removes one.

    Args:
        client: of the management cluster.
        allocation: as it was read.
        annotations: by name.

    Raises:
        Conflict: the allocation changed since it was read.
        ControllerError: the management cluster did not answer.
    """
    patch = {"metadata": {"annotations": dict(annotations)}}
    await client.patch(IP_ALLOCATION, Version.from_object(allocation), patch)
