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
    """Name."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Cni:
    """The network plugin."""

    version: str
    """Version."""
    provider: Annotated[str, words("cilium")] = "cilium"
    """Which one."""
    values: FreeForm | None = None
    """Settings."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class LoadBalancer:
    """What serves Services of type LoadBalancer."""

    version: str
    """Version."""
    provider: Annotated[str, words(DEFAULT_LOAD_BALANCER, CILIUM)] = DEFAULT_LOAD_BALANCER
    """Which one: MetalLB, or Cilium's LB-IPAM. After a change Services get other addresses."""
    values: FreeForm | None = None
    """Settings."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class CertManager:
    """What issues certificates."""

    version: str
    """Version."""
    enabled: bool = True
    """Whether it is installed."""
    values: FreeForm | None = None
    """Settings."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Storage:
    """What serves volumes."""

    version: str
    """Version."""
    provider: Annotated[str, words("longhorn", "linstor")] | None = None
    """Which one."""
    values: FreeForm | None = None
    """Settings."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Ingress:
    """What serves Ingresses. It usually takes the first load-balancer address."""

    enabled: bool | None = None
    """Whether it is installed; yes if absent."""
    provider: Annotated[str, words("traefik", "nginx")] | None = None
    """Which one."""
    version: str | None = None
    """Version."""
    values: FreeForm | None = None
    """Settings."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class GitRepository:
    """Where the cluster's own manifests are."""

    url: str
    """Address."""
    branch: str = "main"
    """Branch."""
    path: str | None = None
    """Folder."""
    secretRef: NamedSecret | None = None
    """Credentials."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class GitOps:
    """What applies manifests from a repository."""

    provider: Annotated[str, words("fluxcd", "argocd")] | None = None
    """Which one."""
    version: str | None = None
    """Version."""
    repository: GitRepository | None = None
    """Where the manifests are."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Addons:
    """What is installed in the cluster."""

    cni: Cni | None = None
    """The network plugin."""
    loadBalancer: LoadBalancer | None = None
    """What serves Services of type LoadBalancer."""
    certManager: CertManager | None = None
    """What issues certificates."""
    storage: Storage | None = None
    """What serves volumes."""
    ingress: Ingress | None = None
    """What serves Ingresses."""
    gitops: GitOps | None = None
    """What applies manifests from a repository."""

    @property
    def ingress_enabled(self) -> bool:
        """Whether an ingress is installed: unless it says no."""
        return self.ingress is None or self.ingress.enabled is not False
