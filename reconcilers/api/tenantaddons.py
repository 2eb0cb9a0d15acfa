"""The parts of a TenantCluster's spec that describe addons."""

from typing import Annotated

from pydantic.dataclasses import dataclass

from reconcilers.api.fields import OTHERS, FreeForm, NonEmpty, words


@dataclass(frozen=True, slots=True, config=OTHERS)
class NamedSecret:
    """A Secret by name."""

    name: NonEmpty
    """Name."""


@dataclass(frozen=True, slots=True, config=OTHERS)
class Cni:
    """The network plugin."""

    version: str
    """Version."""
    provider: Annotated[str, words("cilium")] = "cilium"
    """Which one."""
    values: FreeForm | None = None
    """Settings."""


@dataclass(frozen=True, slots=True, config=OTHERS)
class LoadBalancer:
    """What serves Services of type LoadBalancer."""

    version: str
    """Version."""
    provider: Annotated[str, words("metallb")] = "metallb"
    """Which one."""
    values: FreeForm | None = None
    """Settings."""


@dataclass(frozen=True, slots=True, config=OTHERS)
class CertManager:
    """What issues certificates."""

    version: str
    """Version."""
    enabled: bool = True
    """Whether it is installed."""
    values: FreeForm | None = None
    """Settings."""


@dataclass(frozen=True, slots=True, config=OTHERS)
class Storage:
    """What serves volumes."""

    version: str
    """Version."""
    provider: Annotated[str, words("longhorn", "linstor")] | None = None
    """Which one."""
    values: FreeForm | None = None
    """Settings."""


@dataclass(frozen=True, slots=True, config=OTHERS)
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


@dataclass(frozen=True, slots=True, config=OTHERS)
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


@dataclass(frozen=True, slots=True, config=OTHERS)
class GitOps:
    """What applies manifests from a repository."""

    provider: Annotated[str, words("fluxcd", "argocd")] | None = None
    """Which one."""
    version: str | None = None
    """Version."""
    repository: GitRepository | None = None
    """Where the manifests are."""


@dataclass(frozen=True, slots=True, config=OTHERS)
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
