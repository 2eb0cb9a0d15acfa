"""The kinds that the webhook server itself uses.

They are the Secret with its certificate, and the objects that name its webhooks: webhook
configurations and CustomResourceDefinitions.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from controller.meta import ObjectMeta
from controller.resource import Resource

_EMPTY: Mapping[str, Any] = MappingProxyType({})
_GROUP = "admissionregistration.k8s.io"
TLS_TYPE = "kubernetes.io/tls"


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """The certificates and keys that replicas share, all PEM.

    Args:
        bundle: the trusted authorities, the newest first.
        authority_key: the key of the newest authority.
        certificate: the serving certificate.
        key: the key of the serving certificate.
    """

    bundle: bytes
    authority_key: bytes = field(repr=False)
    certificate: bytes
    key: bytes = field(repr=False)


_FIELDS = {
    "ca.crt": "bundle",
    "ca.key": "authority_key",
    "tls.crt": "certificate",
    "tls.key": "key",
}


@dataclass(frozen=True, slots=True)
class Secret:
    """A Secret; its data is base64, as in the API."""

    metadata: ObjectMeta
    data: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False)

    def read_key_material(self) -> KeyMaterial | None:
        """Return the certificates and keys in the Secret; None if one is missing or no base64."""
        try:
            parts = {
                name: b64decode(self.data[key], validate=True) for key, name in _FIELDS.items()
            }
        except (KeyError, binascii.Error):
            return None
        return KeyMaterial(**parts)


def encode_secret_data(material: KeyMaterial) -> dict[str, str]:
    """Return the data of the Secret that holds `material`."""
    return {
        key: b64encode(getattr(material, name)).decode("ascii") for key, name in _FIELDS.items()
    }


@dataclass(frozen=True, slots=True)
class WebhookConfiguration:
    """A ValidatingWebhookConfiguration or MutatingWebhookConfiguration.

    The webhooks are plain JSON, because they are written back and no field may be lost.
    """

    metadata: ObjectMeta
    webhooks: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class DefinitionSpec:
    """The part of a CustomResourceDefinition's spec that is read.

    Args:
        conversion: plain JSON, because its fields depend on the strategy.
    """

    conversion: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True)
class CustomResourceDefinition:
    """The definition of a kind, which names the webhook that converts between its versions."""

    metadata: ObjectMeta
    spec: DefinitionSpec = field(default_factory=DefinitionSpec)


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
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    CustomResourceDefinition,
    namespaced=False,
)
