"""The kinds that a webhook server itself needs: its Secret, the configurations that call it."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from controller.meta import ObjectMeta
from controller.resource import Resource
from controller.webhooks.material import Material

_NOTHING: Mapping[str, str] = MappingProxyType({})
_FIELDS = {
    "ca.crt": "bundle",
    "ca.key": "authority_key",
    "tls.crt": "certificate",
    "tls.key": "key",
}
TLS_TYPE = "kubernetes.io/tls"


@dataclass(frozen=True, slots=True)
class Secret:
    """A Secret; its data is base64, as the API has it."""

    metadata: ObjectMeta
    data: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)

    def material(self) -> Material | None:
        """Return what the Secret holds; None if something is missing or no base64."""
        try:
            parts = {
                name: b64decode(self.data[key], validate=True) for key, name in _FIELDS.items()
            }
        except (KeyError, binascii.Error):
            return None
        return Material(**parts)


def secret_data(material: Material) -> dict[str, str]:
    """Return the data of the Secret that holds `material`."""
    return {
        key: b64encode(getattr(material, name)).decode("ascii") for key, name in _FIELDS.items()
    }


@dataclass(frozen=True, slots=True)
class WebhookConfiguration:
    """A ValidatingWebhookConfiguration or MutatingWebhookConfiguration; webhooks as plain JSON.

    They are written back, so nothing in them may be lost for not being named here.
    """

    metadata: ObjectMeta
    webhooks: Sequence[Mapping[str, Any]] = ()


_GROUP = "admissionregistration.k8s.io"

SECRETS = Resource("", "v1", "Secret", "secrets", Secret)
VALIDATING = Resource(
    _GROUP,
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    WebhookConfiguration,
    namespaced=False,
)
MUTATING = Resource(
    _GROUP,
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    WebhookConfiguration,
    namespaced=False,
)
