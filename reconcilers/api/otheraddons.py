"""The addons of a TenantCluster's spec that only other controllers read: their schema."""

from dataclasses import dataclass
from typing import Annotated

from controller.markers import with_config
from reconcilers.api.fields import OTHERS, FreeForm, NonEmpty, words


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class NamedSecret:
    """A Secret by name."""

    name: NonEmpty
    """Name of the Secret."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Cni:
    """The network plugin."""

    version: str
    """Version of the addon."""
    provider: Annotated[str, words("cilium")] = "cilium"
    """The network plugin: cilium."""
    values: FreeForm | None = None
    """Settings of the addon."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class CertManager:
    """What issues certificates."""

    version: str
    """Version of the addon."""
    enabled: bool = True
    """Whether cert-manager is installed."""
    values: FreeForm | None = None
    """Settings of the addon."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Storage:
    """What serves volumes."""

    version: str
    """Version of the addon."""
    provider: Annotated[str, words("longhorn", "linstor")] | None = None
    """The storage system: longhorn or linstor."""
    values: FreeForm | None = None
    """Settings of the addon."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class GitRepository:
    """Where the cluster's own manifests are."""

    url: str
    """URL of the Git repository."""
    branch: str = "main"
    """Branch of the repository."""
    path: str | None = None
    """Folder of the manifests within the repository."""
    secretRef: NamedSecret | None = None
    """The Secret with the credentials of the repository."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class GitOps:
    """What applies manifests from a repository."""

    provider: Annotated[str, words("fluxcd", "argocd")] | None = None
    """The GitOps tool: fluxcd or argocd."""
    version: str | None = None
    """Version of the addon."""
    repository: GitRepository | None = None
    """The repository with the manifests."""
