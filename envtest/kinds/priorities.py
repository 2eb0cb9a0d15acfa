"""Which group comes first where names meet, and which of its versions: kube-apiserver's own order.

The numbers are those of the APIServices that kube-apiserver v1.36 makes for itself and for CRDs.
"""

from collections.abc import Mapping
from typing import Final

# Served by the part that asks all the others, so there is no APIService for it.
REGISTRATION: Final = "apiregistration.k8s.io"
_GROUPS: Final[Mapping[str, int]] = {
    "": 18_000,
    "apps": 17_800,
    "events.k8s.io": 17_750,
    "authentication.k8s.io": 17_700,
    "authorization.k8s.io": 17_600,
    "autoscaling": 17_500,
    "batch": 17_400,
    "certificates.k8s.io": 17_300,
    "networking.k8s.io": 17_200,
    "policy": 17_100,
    "rbac.authorization.k8s.io": 17_000,
    "storage.k8s.io": 16_800,
    "admissionregistration.k8s.io": 16_700,
    "apiextensions.k8s.io": 16_700,
    "scheduling.k8s.io": 16_600,
    "coordination.k8s.io": 16_500,
    "node.k8s.io": 16_300,
    "discovery.k8s.io": 16_200,
    "resource.k8s.io": 16_200,
    "flowcontrol.apiserver.k8s.io": 16_100,
}
_FIRST: Final = 20_000
_CUSTOM_GROUP: Final = 1000
_CUSTOM_VERSION: Final = 100
_VERSIONS: Final[Mapping[tuple[str, str], int]] = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 20,
}
_USUAL_VERSION: Final = 15


def group_priority(group: str) -> int:
    """Return how far up a group stands; groups of custom resources are last."""
    return _GROUPS.get(group, _CUSTOM_GROUP)


def version_priority(group: str, version: str) -> int:
    """Return how far up a version stands in its group; those of custom resources are equal."""
    usual = _USUAL_VERSION if group in _GROUPS else _CUSTOM_VERSION
    return _VERSIONS.get((group, version), usual)


def group_order(group: str) -> tuple[int, str]:
    """Return a key that sorts groups as discovery lists them."""
    return (-_FIRST, "") if group == REGISTRATION else (-group_priority(group), group)
