"""A Deployment with probes, created from the options of a manager."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.errors import ConfigurationError
from controller.options import ManagerOptions
from controller.pages import parse_bind

Json = dict[str, Any]

MARGIN_SECONDS = 10
"""Seconds that a Pod gets beyond its manager's grace period, to release the lease and to end."""


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """The settings of an operator's Deployment.

    Args:
        name: the name of the Deployment and the ServiceAccount, and the label
            `app.kubernetes.io/name`.
        namespace: the namespace in which it runs.
        image: the container image.
        command: the command of the container; empty for the image's own.
        replicas: the number of Pods; more than one needs leader election or shards.
        resources: requests and limits.
        environment: variables with fixed values.
    """

    name: str
    namespace: str
    image: str
    command: tuple[str, ...] = ()
    replicas: int = 1
    resources: Mapping[str, Any] = field(
        default_factory=lambda: {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        }
    )
    environment: Mapping[str, str] = field(default_factory=dict)


def create_deployment(settings: DeploymentSettings, options: ManagerOptions) -> Json:
    """Return the Deployment of an operator: restricted Pods, with the probes of its manager.

    Args:
        settings: name, image and size.
        options: the options of the manager; its addresses give ports and probes.

    Raises:
        ConfigurationError: the manager serves no probes that a kubelet can reach, or replicas
            would do the same work twice.
    """
    if settings.replicas > 1 and not options.leader_elect:
        raise ConfigurationError(
            f"{settings.replicas} replicas need leader_elect in ManagerOptions: without it each"
            " reconciles all keys"
        )
    ports = _list_ports(options)
    if "probes" not in ports:
        raise ConfigurationError("set health_bind in ManagerOptions, for example to ':8081'")
    labels = {"app.kubernetes.io/name": settings.name}
    container: Json = {
        "name": "manager",
        "image": settings.image,
        **({"command": list(settings.command)} if settings.command else {}),
        "env": [
            # Modules of operators read the namespace of the lease from this variable.
            {
                "name": "POD_NAMESPACE",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
            },
            *({"name": name, "value": value} for name, value in settings.environment.items()),
        ],
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in ports.items()
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "probes"},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 5},
        "resources": dict(settings.resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod: Json = {
        "serviceAccountName": settings.name,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": round(options.grace_seconds) + MARGIN_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": settings.name,
            "namespace": settings.namespace,
            "labels": dict(labels),
        },
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


def _list_ports(options: ManagerOptions) -> dict[str, int]:
    """Return the ports that a manager serves, by name: `probes`, `metrics` and `webhooks`.

    An address that is switched off has no port.

    Raises:
        ConfigurationError: an address can be reached from inside the Pod only, or has no fixed
            port.
    """
    addresses = {
        "probes": ("health_bind", options.health_bind),
        "metrics": ("metrics_bind", options.metrics_bind),
        "webhooks": ("webhook_bind", options.webhook_bind),
    }
    ports = {}
    for name, (setting, value) in addresses.items():
        bind = parse_bind(value, setting)
        if bind is None:
            continue
        if not bind.port or bind.host in {"127.0.0.1", "localhost", "::1"}:
            raise ConfigurationError(
                f"{setting} {value!r} cannot be reached from outside of the Pod: write a port"
                " alone, for example ':8081'"
            )
        ports[name] = bind.port
    return ports
