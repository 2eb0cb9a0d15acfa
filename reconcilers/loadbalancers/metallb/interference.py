"""Finds out whether MetalLB takes the addresses that another load balancer gives to Services.

A MetalLB without pools takes every address that it did not give from Services without a class.
(Seen on 0.16.1.) One that serves a class of its own, by --lb-class, leaves the others alone.
"""

from dataclasses import dataclass, field

from controller.client import Client
from controller.errors import Forbidden, NotFound
from controller.meta import ObjectMeta
from controller.resource import Resource

_COMPONENT_LABELS = ("component", "app.kubernetes.io/component")
_CLASS_FLAG = "--lb-class"


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a Deployment."""

    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSpec:
    """The containers of a pod."""

    containers: tuple[Container, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """The pods of a Deployment."""

    spec: PodSpec = field(default_factory=PodSpec)


@dataclass(frozen=True, slots=True)
class BalancerDeploymentSpec:
    """How many pods of which kind there should be."""

    replicas: int = 1
    template: PodTemplate = field(default_factory=PodTemplate)


@dataclass(frozen=True, slots=True)
class BalancerDeployment:
    """A Deployment, as far as it says whether it serves Services without a class."""

    metadata: ObjectMeta
    spec: BalancerDeploymentSpec = field(default_factory=BalancerDeploymentSpec)

    @property
    def is_controller(self) -> bool:
        """Whether it is MetalLB's controller, by the labels of its manifests and of its chart."""
        return any(self.metadata.labels.get(label) == "controller" for label in _COMPONENT_LABELS)

    @property
    def has_class(self) -> bool:
        """Whether it serves a load-balancer class of its own."""
        containers = self.spec.template.spec.containers
        return any(
            arg.startswith(_CLASS_FLAG) for container in containers for arg in container.args
        )


DEPLOYMENT = Resource("apps", "v1", "Deployment", "deployments", BalancerDeployment)


async def find_interference(client: Client, namespace: str) -> str:
    """Return a sentence if a MetalLB takes addresses from Services without a class.

    Args:
        client: of the tenant.
        namespace: MetalLB's namespace there.

    Returns:
        The sentence; empty if no such MetalLB runs there, or if Deployments may not be read.

    Raises:
        ControllerError: the tenant did not answer.
    """
    try:
        page = await client.list(DEPLOYMENT, namespace=namespace)
    except (Forbidden, NotFound):
        return ""  # the Deployments cannot be seen, so nothing is known
    for deployment in page.items:
        # With 0 replicas it does not run.
        if deployment.is_controller and deployment.spec.replicas and not deployment.has_class:
            key = deployment.metadata.key
            return (
                f"MetalLB (Deployment {key}) takes the addresses of Services from any other load"
                f" balancer: uninstall it, or start it with {_CLASS_FLAG}"
            )
    return ""
