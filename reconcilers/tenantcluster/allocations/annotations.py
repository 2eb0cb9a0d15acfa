"""Writes annotations of an IPAllocation, only at the version that the caller has judged."""

from collections.abc import Mapping

from controller.client import Client
from controller.meta import Version
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION


async def annotate(
    client: Client, allocation: IPAllocation, annotations: Mapping[str, str | None]
) -> None:
    """Set annotations of an allocation if it did not change since it was read.

    Args:
        client: of the management cluster.
        allocation: the version that the caller has judged.
        annotations: the values, by name; None removes the annotation.

    Raises:
        Conflict: the allocation changed since it was read.
        ControllerError: the management cluster did not answer.
    """
    patch = {"metadata": {"annotations": dict(annotations)}}
    await client.patch(IP_ALLOCATION, Version.from_object(allocation), patch)
