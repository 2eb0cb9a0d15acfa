"""The properties of other platforms' kinds that `plan` needs to store their objects.

`plan` runs the controllers against an API server in memory, which it fills from manifests. An
object is *implied* if `plan` takes it to exist because a manifest names it. The properties are
those of the `Platform` that has the kind.
"""

from collections.abc import Iterator, Sequence

from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.integrations.core.objects import Body, find_resource, is_of_kinds
from reconcilers.integrations.registry import (
    list_candidate_platforms,
    list_platforms,
    list_platforms_of_groups,
)


def is_fenced_pool(resource: Resource[Object]) -> bool:
    """Return whether objects of a kind are pools that get a journal when they are created."""
    platforms = list_platforms_of_groups({resource.group})
    return any(resource in platform.fenced_pools for platform in platforms)


def has_content(resource: Resource[Object]) -> bool:
    """Return whether objects of a kind have the addresses that they hold in their spec.

    Other kinds have them in the status, or in objects that are created for them.
    """
    platforms = list_platforms_of_groups({resource.group})
    return any(resource in platform.content_kinds for platform in platforms)


def is_implied(resource: Resource[Object]) -> bool:
    """Return whether `plan` takes objects of a kind to exist if a manifest names them."""
    platforms = list_platforms_of_groups({resource.group})
    return any(resource in platform.implied_kinds for platform in platforms)


def find_finalizer(resource: Resource[Object]) -> str | None:
    """Return the finalizer that `plan` gives to objects of a kind; None if they need none."""
    platforms = list_platforms_of_groups({resource.group})
    return next(
        (
            platform.finalizers[resource.full_name]
            for platform in platforms
            if resource.full_name in platform.finalizers
        ),
        None,
    )


def list_kinds(platforms: Sequence[str]) -> list[Resource[Object]]:
    """Return the kinds of some platforms, each in the version that is preferred."""
    return [kind for platform in list_platforms(platforms) for kind in platform.kinds]


def find_platform_names(bodies: Sequence[Body]) -> set[str]:
    """Return the names of the platforms whose kinds occur among manifests.

    The API group of a manifest gives only candidates: Cluster API, for example, has many kinds
    that are not read here. So the kinds of each candidate decide.
    """
    return {
        platform.name
        for platform in list_candidate_platforms(bodies)
        if any(is_of_kinds(body, platform.kinds) for body in bodies)
    }


def get_resource(body: Body, platforms: Sequence[str]) -> Resource[Object]:
    """Return the kind of an object of some platforms, in the version that is preferred."""
    resource = find_resource(body, list_kinds(platforms))
    assert resource is not None, "the caller has only objects of these platforms"
    return resource


def fill_defaults(body: Body) -> Body:
    """Return a manifest with the fields that other controllers of its platform fill in."""
    for platform in list_candidate_platforms([body]):
        body = platform.fill_defaults(body)
    return body


def list_implied_objects(bodies: Sequence[Body]) -> Iterator[tuple[Resource[Object], Body]]:
    """Yield kind and manifest of each object that is implied by manifests, each once."""
    seen: set[tuple[str, Key]] = set()
    for platform in list_candidate_platforms(bodies):
        for kind, body in platform.list_implied_objects(bodies):
            metadata = body["metadata"]
            identity = kind.full_name, Key(metadata["namespace"], metadata["name"])
            if identity not in seen:
                seen.add(identity)
                yield kind, body
