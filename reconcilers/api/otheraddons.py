"""The addons of a TenantCluster's spec that only other controllers read: their schema."""

from typing import Annotated

from controller.markers import ApiType, with_config
from reconcilers.api.fields import OTHERS, FreeForm, NonEmpty, words


@with_config(OTHERS)
class NamedSecret(ApiType, frozen=True):
    """A Secret by name."""

    name: NonEmpty
    """Name of the Secret."""


@with_config(OTHERS)
class Cni(ApiType, frozen=True):
    """The network plugin."""

    version: str
    """Version of the addon."""
    provider: Annotated[str, words("cilium")] = "cilium"
    """The network plugin: cilium."""
    values: FreeForm | None = None
    """Settings of the addon."""


@with_config(OTHERS)
class CertManager(ApiType, frozen=True):
    """What issues certificates."""

    version: str
    """Version of the addon."""
    enabled: bool = True
    """Whether cert-manager is installed."""
    values: FreeForm | None = None
    """Settings of the addon."""


@with_config(OTHERS)
class Storage(ApiType, frozen=True):
    """What serves volumes."""

    version: str
    """Version of the addon."""
    provider: Annotated[str, words("longhorn", "linstor")] | None = None
    """The storage system: longhorn or linstor."""
    values: FreeForm | None = None
    """Settings of the addon."""


@with_config(OTHERS)
class GitRepository(ApiType, frozen=True):
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
class GitOps(ApiType, frozen=True):
    """What applies manifests from a repository."""

    provider: Annotated[str, words("fluxcd", "argocd")] | None = None
    """The GitOps tool: fluxcd or argocd."""
    version: str | None = None
    """Version of the addon."""
    repository: GitRepository | None = None
    """The repository with the manifests."""
