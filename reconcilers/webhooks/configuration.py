"""The ValidatingWebhookConfiguration that registers the webhooks.

manifests/webhook has the same configuration, with a Service; a test compares the two.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
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
from reconcilers.webhooks.admission import build_path
from reconcilers.webhooks.annotations import build_has_annotation
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
"""The validated kind and its writes, by the name of the webhook."""

ADVISED: Validated = {"deletion.vipallocation.kb.io": (IP_ALLOCATION, ("DELETE",))}
"""Webhooks that only warn. If they do not answer, the API server allows the write."""
ADVICE_SECONDS = 3
"""Seconds that the API server waits for a warning."""

INTEGRATIONS: Mapping[str, Validated] = {
    platform.name: platform.validated for platform in list_platforms()
}
"""The webhooks of each integration, by the name of the integration."""

CHANGES_SPEC = {
    "name": "spec-changes",
    "expression": (
        "request.operation != 'UPDATE'"
        " || has(object.spec) != has(oldObject.spec)"
        " || (has(object.spec) && object.spec != oldObject.spec)"
    ),
}
"""The match condition of a write that changes the spec. Other writes are not sent to us, so labels
and finalizers can be written, and objects deleted, while no webhook runs."""


def _build_annotation_condition(annotations: Collection[str]) -> Mapping[str, str]:
    """Return the match condition of a write that changes the spec or one of some annotations."""

    def build_value(variable: str, annotation: str) -> str:
        """Return the CEL expression of an annotation of an object; empty text if it is absent."""
        value = f"{variable}.metadata.annotations['{annotation}']"
        return f"({build_has_annotation(variable, annotation)} ? {value} : '')"

    changes = (
        f"{build_value('object', name)} != {build_value('oldObject', name)}"
        for name in annotations
    )
    expression = " || ".join([CHANGES_SPEC["expression"], *changes])
    return {"name": "spec-or-annotation-changes", "expression": expression}


MATCH_CONDITIONS: Mapping[str, Mapping[str, str]] = {
    TENANT_CLUSTER.full_name: {
        "name": "spec-changes-or-release",
        "expression": f"{CHANGES_SPEC['expression']} || {ADDS_RELEASE_ANYWAY}",
    },
    **{
        kind: _build_annotation_condition(annotations)
        for platform in list_platforms()
        for kind, annotations in platform.validated_annotations.items()
    },
}
"""By full name of a kind, the match condition where CHANGES_SPEC is not enough."""


def build_service_config(name: str) -> dict[str, Any]:
    """Return the clientConfig of a webhook behind a Service in the cluster.

    Args:
        name: of a webhook in VALIDATED, ADVISED or INTEGRATIONS.
    """
    groups = [VALIDATED, ADVISED, *INTEGRATIONS.values()]
    # Exactly one group has the name.
    [(kind, _)] = [validated[name] for validated in groups if name in validated]
    service = {
        "name": SERVICE,
        "namespace": names.DEFAULT_NAMESPACE,
        "path": build_path(kind),
        "port": 443,
    }
    return {"service": service}


def find_path(name: str) -> str:
    """Return the URL path of a webhook in VALIDATED or ADVISED, by its name."""
    kind, _ = {**VALIDATED, **ADVISED}[name]
    return build_path(kind)


def build_configuration(
    client: Callable[[str], Mapping[str, Any]] = build_service_config, name: str = NAME
) -> dict[str, Any]:
    """Return the ValidatingWebhookConfiguration.

    Args:
        client: returns the clientConfig of a webhook, by its name.
        name: of the configuration.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            *build_entries(VALIDATED, client),
            *build_entries(ADVISED, client, failure_policy="Ignore", seconds=ADVICE_SECONDS),
        ],
    }


def build_entries(
    validated: Validated,
    client: Callable[[str], Mapping[str, Any]] = build_service_config,
    *,
    failure_policy: str = "Fail",
    seconds: int = TIMEOUT_SECONDS,
) -> Iterator[dict[str, Any]]:
    """Yield the entries of a ValidatingWebhookConfiguration, one for each webhook.

    Args:
        validated: the webhooks.
        client: returns the clientConfig of a webhook, by its name.
        failure_policy: Fail, to reject writes that the webhook does not answer, or Ignore.
        seconds: the timeout of a call.
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
            "matchConditions": [dict(MATCH_CONDITIONS.get(kind.full_name, CHANGES_SPEC))],
            "failurePolicy": failure_policy,
            "sideEffects": "None",
            "timeoutSeconds": seconds,
            "admissionReviewVersions": ["v1"],
        }
