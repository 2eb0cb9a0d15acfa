"""Kinds as people name them and as kubectl takes and prints them."""

from typing import Any

from controller.resource import Resource
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, TENANT_CLUSTER

_SHORT_NAMES = {TENANT_CLUSTER.kind: "tc", IP_ALLOCATION.kind: "ipa", NETWORK_POOL.kind: "np"}
"""The short names in our definitions; a test compares them."""


def list_kind_words(resource: Resource[Any]) -> frozenset[str]:
    """Return the words that name a kind, in lower case: kind, plural, both with group, short name.

    A kind of another platform has no short name here.
    """
    plain = [resource.kind.lower(), resource.plural]
    with_group = [f"{word}.{resource.group}" for word in plain]
    is_ours = resource.group == TENANT_CLUSTER.group
    short = [_SHORT_NAMES[resource.kind]] if is_ours and resource.kind in _SHORT_NAMES else []
    return frozenset((*plain, *with_group, *short))
