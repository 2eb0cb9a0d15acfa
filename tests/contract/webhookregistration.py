"""Registers the webhooks of a program on this machine, which the API server calls by URL."""

from collections.abc import Mapping
from typing import Any

import httpx

from reconcilers.webhooks.admission import build_path
from reconcilers.webhooks.configuration import Validated, build_entries

HOST = "127.0.0.1"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


async def register_webhooks(
    admin: httpx.AsyncClient,
    name: str,
    *,
    validated: Validated,
    port: int | None,
    namespace_labels: Mapping[str, str] | None = None,
) -> None:
    """Register webhooks; the program writes its authority into the registration.

    Args:
        admin: the administrator's client.
        name: of the ValidatingWebhookConfiguration.
        validated: the webhooks.
        port: at which the program serves them.
        namespace_labels: the labels of the namespaces whose objects are checked; None for all.
    """

    def make_client_config(webhook: str) -> Mapping[str, Any]:
        kind, _ = validated[webhook]
        return {"url": f"https://{HOST}:{port}{build_path(kind)}"}

    entries = list(build_entries(validated, make_client_config))
    if namespace_labels is not None:
        selector = {"matchLabels": dict(namespace_labels)}
        entries = [{**entry, "namespaceSelector": selector} for entry in entries]
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": entries,
    }
    answer = await admin.post(CONFIGURATIONS, json=body)
    assert answer.status_code == 201, answer.text
