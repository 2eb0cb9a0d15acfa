"""The parts of a TenantCluster's spec that describe addons."""

from dataclasses import dataclass
from typing import Annotated

from controller.markers import with_config
from reconcilers.api.fields import OTHERS, FreeForm, NonEmpty, words

DEFAULT_LOAD_BALANCER = "metallb"
"""The provider of load balancers where a TenantCluster names none."""
CILIUM = "cilium"
"""The provider of load balancers that is Cilium's LB-IPAM."""


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
class LoadBalancer:
    """What serves Services of type LoadBalancer."""

    version: str
    """Version of the addon."""
    provider: Annotated[str, words(DEFAULT_LOAD_BALANCER, CILIUM)] = DEFAULT_LOAD_BALANCER
    """The load balancer that serves Services of type LoadBalancer: metallb, or cilium for Cilium's
    LB-IPAM. If it is changed, the old load balancer releases its ranges first, and Services get
    other addresses."""
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
class Ingress:
    """What serves Ingresses. It usually takes the first load-balancer address."""

    enabled: bool | None = None
    """Whether an ingress controller is installed; absent means true. It usually takes the first
    load-balancer address. If it is false, an elastic cluster starts without addresses."""
    provider: Annotated[str, words("traefik", "nginx")] | None = None
    """The ingress controller: traefik or nginx."""
    version: str | None = None
    """Version of the addon."""
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


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Addons:
    """What is installed in the cluster."""

    cni: Cni | None = None
    """The network plugin."""
    loadBalancer: LoadBalancer | None = None
    """The load balancer of Services. Its provider decides how ranges are handed to the cluster."""
    certManager: CertManager | None = None
    """cert-manager. Read by the controller that builds the cluster, not by butler-ipam."""
    storage: Storage | None = None
    """The storage system. Read by the controller that builds the cluster, not by butler-ipam."""
    ingress: Ingress | None = None
    """The ingress controller."""
    gitops: GitOps | None = None
    """The tool that applies manifests from a Git repository. Read by the controller that builds
    the cluster, not by butler-ipam."""

    @property
    def ingress_enabled(self) -> bool:
        """Whether an ingress is installed: unless it says no."""
        return self.ingress is None or self.ingress.enabled is not False
