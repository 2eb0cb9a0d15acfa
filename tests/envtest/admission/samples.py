"""Configurations for tests."""

from typing import Any

Body = dict[str, Any]

CONFIGMAPS = "/api/v1/namespaces/lab/configmaps"
WIDGETS: Body = {
    "apiGroups": ["lab.example.com"],
    "apiVersions": ["v1"],
    "operations": ["*"],
    "resources": ["widgets"],
}


def entry(path: str, **members: Any) -> Body:
    """Return a webhook at a path of the hook server, asked about widgets unless told else."""
    return {
        "name": f"{path.strip('/')}.lab.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": f"${{hook}}{path}", "caBundle": "<ca>"},
        "rules": [WIDGETS],
        **members,
    }


def build_configuration(kind: str, *entries: Body, name: str = "lab") -> Body:
    """Return a Validating or Mutating configuration."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(entries),
    }
