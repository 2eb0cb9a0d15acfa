"""The kinds of other platforms, as `plan` stores their objects on its API server."""

from collections.abc import Iterator, Sequence

from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.integrations.core.objects import Body, is_of
from reconcilers.integrations.core.objects import resource_of as find_resource
from reconcilers.integrations.registry import (
    candidate_platforms,
    list_platforms,
    platforms_of_groups,
)


def is_fenced_pool(resource: Resource[Object]) -> bool:
    """Return whether objects of a kind are pools that get a journal when they are created."""
    platforms = platforms_of_groups({resource.group})
    return any(resource in platform.fenced_pools for platform in platforms)


def has_content(resource: Resource[Object]) -> bool:
    """Return whether the spec of objects of a kind has the addresses that they hold."""
    platforms = platforms_of_groups({resource.group})
    return any(resource in platform.content_kinds for platform in platforms)


def is_implied(resource: Resource[Object]) -> bool:
    """Return whether objects of a kind are taken to exist where others name them."""
    platforms = platforms_of_groups({resource.group})
    return any(resource in platform.implied_kinds for platform in platforms)


def find_finalizer(resource: Resource[Object]) -> str | None:
    """Return the finalizer that requests of a kind have from the beginning; None for none."""
    platforms = platforms_of_groups({resource.group})
    return next(
        (
            platform.finalizers[resource.full_name]
            for platform in platforms
            if resource.full_name in platform.finalizers
        ),
        None,
    )


def kinds_of(platforms: Sequence[str]) -> list[Resource[Object]]:
    """Return the kinds of some platforms, each in the version that is preferred."""
    return [kind for platform in list_platforms(platforms) for kind in platform.kinds]


def find_platform_names(bodies: Sequence[Body]) -> set[str]:
    """Return the names of the platforms that manifests have objects of.

    The API group of a manifest gives only candidates: Cluster API, for example, has many kinds
    that are not read here. So the kinds of each candidate decide.
    """
    return {
        platform.name
        for platform in candidate_platforms(bodies)
        if any(is_of(body, platform.kinds) for body in bodies)
    }


def resource_of(body: Body, platforms: Sequence[str]) -> Resource[Object]:
    """Return the kind of an object of some platforms, in the version that is preferred."""
    resource = find_resource(body, kinds_of(platforms))
    assert resource is not None, "the caller has only objects of these platforms"
    return resource


def fill_defaults(body: Body) -> Body:
    """Return a manifest as other controllers of its platform leave it."""
    for platform in candidate_platforms([body]):
        body = platform.fill_defaults(body)
    return body


def implied_objects(bodies: Sequence[Body]) -> Iterator[tuple[Resource[Object], Body]]:
    """Yield the objects that manifests name, and that are taken to exist, each once."""
    seen: set[tuple[str, Key]] = set()
    for platform in candidate_platforms(bodies):
        for kind, body in platform.implied_objects(bodies):
            metadata = body["metadata"]
            identity = kind.full_name, Key(metadata["namespace"], metadata["name"])
            if identity not in seen:
                seen.add(identity)
                yield kind, body
