"""The part of a TenantCluster's status that the controller writes which builds the cluster."""

from typing import Annotated, Any

from controller.markers import ApiType, FieldSchema, with_config
from reconcilers.api.fields import OTHERS, Int32, words


@with_config(OTHERS)
class ObservedWorkers(ApiType, frozen=True):
    """Worker nodes as seen."""

    desired: Int32 | None = None
    """Number of worker nodes that the spec asks for."""
    ready: Int32 | None = None
    """Number of worker nodes that are ready."""
    nodes: Annotated[
        tuple[Any, ...],
        FieldSchema(json_schema_extra={"items": {"type": "string"}}),
    ] = ()
    """Names of the worker nodes."""


@with_config(OTHERS)
class ObservedAddon(ApiType, frozen=True):
    """An addon as seen."""

    name: str
    """Name of the addon."""
    version: str | None = None
    """Version that is installed."""
    status: (
        Annotated[str, words("Pending", "Installing", "Healthy", "Degraded", "Failed")] | None
    ) = None
    """State of the addon."""
    managedBy: Annotated[str, words("butler", "flux", "argocd", "manual")] | None = None
    """What installs the addon."""


@with_config(OTHERS)
class ObservedState(ApiType, frozen=True):
    """The cluster as seen."""

    kubernetesVersion: str | None = None
    """Kubernetes version that the cluster runs."""
    workers: ObservedWorkers | None = None
    """The worker nodes."""
    addons: tuple[ObservedAddon, ...] = ()
    """The addons."""
