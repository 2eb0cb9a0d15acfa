"""The ValidatingWebhookConfiguration that registers the webhooks.

manifests/webhook carries it with a Service; a test holds the two against each other.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from controller.resource import Resource
from reconcilers.api import names
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.integrations.registry import list_platforms
from reconcilers.webhooks.admission import path
from reconcilers.webhooks.releasing import ADDS_RELEASE_ANYWAY

NAME = names.WEBHOOK_CONFIGURATION
SERVICE = "butler-ipam-webhook"
TIMEOUT_SECONDS = 10

Validated = Mapping[str, tuple[Resource[Any], tuple[str, ...]]]
VALIDATED: Validated = {
    "vnetworkpool.kb.io": (NETWORK_POOL, ("CREATE", "UPDATE", "DELETE")),
    "vipallocation.kb.io": (IP_ALLOCATION, ("CREATE", "UPDATE")),
    "vtenantcluster.kb.io": (TENANT_CLUSTER, ("CREATE", "UPDATE")),
    "vproviderconfig.kb.io": (PROVIDER_CONFIG, ("CREATE", "UPDATE", "DELETE")),
}
"""By the webhook's name: the kind, and which writes."""

ADVISED: Validated = {"deletion.vipallocation.kb.io": (IP_ALLOCATION, ("DELETE",))}
"""Writes that are never refused, and may get a warning. They do not depend on us: the API server
goes on without an answer."""
ADVICE_SECONDS = 3
"""How long the API server waits for such a warning."""

INTEGRATIONS: Mapping[str, Validated] = {
    platform.name: platform.validated for platform in list_platforms()
}
"""Those of the integrations, by the name of the integration."""

CHANGES_SPEC = {
    "name": "spec-changes",
    "expression": (
        "request.operation != 'UPDATE'"
        " || has(object.spec) != has(oldObject.spec)"
        " || (has(object.spec) && object.spec != oldObject.spec)"
    ),
}
"""Who touches labels or finalizers alone does not need us to be there: an object can always be
looked after, and can always go."""


MATCH_CONDITIONS: Mapping[str, Mapping[str, str]] = {
    TENANT_CLUSTER.kind: {
        "name": "spec-changes-or-release",
        "expression": f"{CHANGES_SPEC['expression']} || {ADDS_RELEASE_ANYWAY}",
    }
}
"""By kind, where more than changes of the spec are asked about."""


def service(name: str) -> dict[str, Any]:
    """Return how the API server reaches the webhook called `name`, in a cluster."""
    groups = [VALIDATED, ADVISED, *INTEGRATIONS.values()]
    [(kind, _)] = [validated[name] for validated in groups if name in validated]
    where = {
        "name": SERVICE,
        "namespace": names.DEFAULT_NAMESPACE,
        "path": path(kind),
        "port": 443,
    }
    return {"service": where}


def path_of(name: str) -> str:
    """Return the path of the webhook called `name`, one of our own kinds."""
    kind, _ = {**VALIDATED, **ADVISED}[name]
    return path(kind)


def configuration(
    client: Callable[[str], Mapping[str, Any]] = service, name: str = NAME
) -> dict[str, Any]:
    """Return the ValidatingWebhookConfiguration.

    Args:
        client: gives the clientConfig of a webhook, by its name.
        name: of the configuration.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            *entries(VALIDATED, client),
            *entries(ADVISED, client, failure_policy="Ignore", seconds=ADVICE_SECONDS),
        ],
    }


def entries(
    validated: Validated,
    client: Callable[[str], Mapping[str, Any]] = service,
    *,
    failure_policy: str = "Fail",
    seconds: int = TIMEOUT_SECONDS,
) -> Iterator[dict[str, Any]]:
    """Yield the entries of a configuration.

    Args:
        validated: the webhooks.
        client: gives the clientConfig of a webhook, by its name.
        failure_policy: what the API server does without an answer: Fail or Ignore.
        seconds: how long it waits for one.
    """
    for webhook, (kind, operations) in validated.items():
        yield {
            "name": webhook,
            "clientConfig": dict(client(webhook)),
            "rules": [
                {
                    "apiGroups": [kind.group],
                    "apiVersions": [kind.version],
                    "operations": list(operations),
                    "resources": [kind.plural],
                    "scope": "Namespaced" if kind.namespaced else "Cluster",
                }
            ],
            "matchPolicy": "Equivalent",
            "matchConditions": [dict(MATCH_CONDITIONS.get(kind.kind, CHANGES_SPEC))],
            "failurePolicy": failure_policy,
            "sideEffects": "None",
            "timeoutSeconds": seconds,
            "admissionReviewVersions": ["v1"],
        }
