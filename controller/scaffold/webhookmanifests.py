"""The Service and the configurations of a manager's webhooks, read from what was added to it.

The manager knows path, port and type of a webhook. The kinds of the operator show which resources
have that type. Operations are those of the webhook, CREATE and UPDATE if it names none.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from controller.errors import ConfigurationError
from controller.manager import Manager
from controller.meta import MetadataOnly, Untyped
from controller.pages import parse_bind
from controller.resource import Resource
from controller.scaffold.definitions import CustomKind
from controller.webhooks.webhook import Webhook

Json = dict[str, Any]

SERVICE_PORT = 443
"""The port of the Service, which configurations mean if they name none."""


def create_webhook_configurations(
    manager: Manager, name: str, namespace: str, kinds: Iterable[CustomKind] = ()
) -> list[Json]:
    """Return the Service of a manager's webhooks and the webhook configurations.

    The list is empty if the manager has no webhooks or does not serve them. A webhook with the
    type of no kind is left out; `list_unregistered_webhooks` returns these.

    Args:
        manager: with all informers and webhooks added; it need not run.
        name: the name of the Deployment, and of the objects if the options name no others.
        namespace: the namespace in which the operator runs.
        kinds: the operator's own kinds; the kinds of the manager's informers are known.

    Raises:
        ConfigurationError: nothing would write the caBundle of a configuration.
    """
    options = manager.options
    if not manager.webhooks or parse_bind(options.webhook_bind, "webhook_bind") is None:
        return []
    signed = options.webhook_self_signed
    service: Json = {"name": signed.service if signed else name, "namespace": namespace}
    objects: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": dict(service),
            "spec": {
                "selector": {"app.kubernetes.io/name": name},
                "ports": [{"name": "webhooks", "port": SERVICE_PORT, "targetPort": "webhooks"}],
            },
        }
    ]
    resources = _list_resources(manager, kinds)
    for kind, setting, mutating in (
        ("MutatingWebhookConfiguration", "mutating", True),
        ("ValidatingWebhookConfiguration", "validating", False),
    ):
        entries = [
            _describe_webhook(webhook, matching, service)
            for webhook in manager.webhooks
            if isinstance(webhook, Webhook) and webhook.mutating is mutating
            if (matching := _select_by_type(resources, webhook.type))
        ]
        if not entries:
            continue  # no webhook of this sort is for a known kind
        names: Sequence[str] = getattr(signed, setting) if signed else (name,)
        if not names:
            raise ConfigurationError(
                f"SelfSigned.{setting} is empty, so nothing writes the caBundle of the {kind};"
                f" set it, for example to ({name!r},)"
            )
        objects.append(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": names[0]},
                "webhooks": entries,
            }
        )
    return objects


def list_unregistered_webhooks(manager: Manager, kinds: Iterable[CustomKind] = ()) -> list[str]:
    """Return the paths of webhooks that get no configuration, because no kind has their type.

    The kinds are those of the operator and of its informers. MetadataOnly and Untyped count as the
    type of no kind. A Conversion is skipped, because it is not registered by a webhook
    configuration: `spec.conversion` of a CustomResourceDefinition names it.

    Args:
        manager: as for `create_webhook_configurations`.
        kinds: the operator's own kinds.
    """
    types = {resource.type for resource in _list_resources(manager, kinds)}
    return [
        webhook.path
        for webhook in manager.webhooks
        if isinstance(webhook, Webhook) and webhook.type not in types
    ]


def _list_resources(manager: Manager, kinds: Iterable[CustomKind]) -> list[Resource[Any]]:
    """Return the kinds of the operator and of the informers, each once with each type.

    MetadataOnly and Untyped are left out: objects of any kind can have these types. So they do not
    show for which resource a webhook is.
    """
    resources = [kind.resource for kind in kinds]
    resources += [informer.resource for informer in manager.informers]
    by_name = {
        (resource.full_name, resource.version, resource.type): resource
        for resource in resources
        if resource.type not in {MetadataOnly, Untyped}
    }
    return list(by_name.values())


def _select_by_type(resources: Sequence[Resource[Any]], model: type) -> list[Resource[Any]]:
    """Return the kinds and versions whose objects have the type `model`."""
    return [resource for resource in resources if resource.type is model]


def _describe_webhook(
    webhook: Webhook[Any], resources: Sequence[Resource[Any]], service: Json
) -> Json:
    """Return the entry of a webhook in its configuration.

    The API server requires a name of at least three parts with dots between them.
    """
    path = re.sub(r"[^a-z0-9]+", "-", webhook.path.lower()).strip("-")
    first = resources[0]
    return {
        "name": f"{path}.{first.plural}.{first.group or 'core'}",
        "clientConfig": {"service": {**service, "path": webhook.path}},
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
                "operations": list(webhook.operations),
            }
            for resource in resources
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
