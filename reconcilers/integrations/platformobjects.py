"""The kinds of other platforms, as `plan` stores their objects on its API server."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from controller.resource import Resource
from reconcilers.integrations.core.objects import is_of
from reconcilers.integrations.core.objects import resource_of as find_resource
from reconcilers.integrations.core.platforms import Body
from reconcilers.integrations.registry import PLATFORMS, list_platforms

FENCED_POOLS: Sequence[Resource[Any]] = [
    kind for platform in PLATFORMS for kind in platform.fenced_pools
]
"""The kinds of pools that get a journal when they are created."""
CONTENT_KINDS: Sequence[Resource[Any]] = [
    kind for platform in PLATFORMS for kind in platform.content_kinds
]
"""The kinds of objects whose spec has the addresses that they hold."""
IMPLIED_KINDS: Sequence[Resource[Any]] = [
    kind for platform in PLATFORMS for kind in platform.implied_kinds
]
"""The kinds of objects that are taken to exist where others name them."""
FINALIZERS: Mapping[str, str] = dict(
    chain.from_iterable(platform.finalizers.items() for platform in PLATFORMS)
)
"""By full name of a kind: the finalizer that requests have from the beginning."""


def kinds_of(integrations: Sequence[str]) -> list[Resource[Any]]:
    """Return the kinds of some platforms, each in the version that is preferred."""
    return [kind for platform in list_platforms(integrations) for kind in platform.kinds]


def integrations_of(bodies: Sequence[Body]) -> set[str]:
    """Return the platforms of which there are objects."""
    return {
        platform.name
        for platform in PLATFORMS
        if any(is_of(body, platform.kinds) for body in bodies)
    }


def resource_of(body: Body, integrations: Sequence[str]) -> Resource[Any]:
    """Return the kind of an object of some platforms, in the version that is preferred."""
    resource = find_resource(body, kinds_of(integrations))
    assert resource is not None, "the caller has only objects of these platforms"
    return resource


def fill_defaults(body: Body) -> Body:
    """Return a manifest as other controllers of its platform leave it."""
    for platform in PLATFORMS:
        body = platform.fill_defaults(body)
    return body


def implied_objects(bodies: Sequence[Body]) -> Iterator[tuple[Resource[Any], Body]]:
    """Yield the objects that manifests name, and that are taken to exist."""
    for platform in PLATFORMS:
        yield from platform.implied_objects(bodies)
