"""An integration's objects as a command reads them: from a cluster once, or from manifests.

A *manifest* (a body) is an object as a user writes it, so it lacks the fields that a server fills
in. To *decode* is to convert it to the type of its kind.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, TypeVar

import msgspec

from controller.cache import Cache
from controller.codec import DecodeFailure
from controller.meta import Key, Object, ObjectMeta
from controller.resource import Resource
from reconcilers.integrations.core.scopedlists import NotRead, ScopedLists

Body = Mapping[str, Any]
"""A manifest."""
SPACE_INDEX = "space"
"""The index by which caches find the objects of a pool."""
T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class ObjectsByKind:
    """All objects of some kinds, as far as the user may read them.

    Args:
        by_kind: the objects by kind. A kind that the user may not read has no entry.
        unreadable: the objects that could not be decoded: by kind and key, the reason.
        not_read: the kinds that the user may not read, in all namespaces or in all but one.
    """

    by_kind: dict[str, list[Any]] = field(default_factory=dict)
    unreadable: dict[tuple[str, Key], str] = field(default_factory=dict)
    not_read: Sequence[NotRead] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there are no objects; an object that cannot be decoded counts as an object."""
        return not any(self.by_kind.values()) and not self.unreadable

    def build_cache(self, resource: Resource[T], **more: Any) -> Cache[T]:
        """Return a cache with the objects of a kind, as after a LIST.

        Args:
            **more: further arguments of the cache, such as its indexes.
        """
        return fill_cache(resource, self.by_kind.get(resource.kind, ()), self.unreadable, **more)


def fill_cache(
    resource: Resource[T],
    objects: Iterable[T],
    unreadable: Mapping[tuple[str, Key], str],
    **more: Any,
) -> Cache[T]:
    """Return a cache with objects, as after a LIST.

    Args:
        resource: the kind of the objects.
        objects: the objects that could be decoded.
        unreadable: the objects of any kind that could not be decoded: by kind and key, the reason.
        **more: further arguments of the cache, such as its indexes.
    """
    listed = list(objects)
    unreadable_of_kind = {
        key: why for (kind, key), why in unreadable.items() if kind == resource.kind
    }
    cache = Cache(resource, **more)
    # The highest resourceVersion of the objects stands for that of the LIST, which is not given.
    cache.replace(
        listed, max((obj.metadata.revision for obj in listed), default=0), unreadable_of_kind
    )
    return cache


def make_decode_failure(
    resource: Resource[Object],
    body: Mapping[str, Any],
    metadata: Mapping[str, Any],
    error: Exception,
) -> DecodeFailure:
    """Return why a manifest cannot be decoded, with the parts that can be decoded.

    These parts are the metadata and the outline, which names the pool of the object.

    Args:
        resource: the kind of the manifest.
        metadata: the metadata of the manifest, with the fields that a server fills in.
        error: why the manifest could not be converted.
    """
    outline = decoded_metadata = None
    # If one of the conversions fails, the parts after it stay None.
    with suppress(msgspec.ValidationError):
        decoded_metadata = msgspec.convert(metadata, ObjectMeta)
        if resource.outline is not None:
            outline = msgspec.convert({**body, "metadata": metadata}, resource.outline)
    return DecodeFailure(str(error), outline, decoded_metadata)


async def read_objects(lists: ScopedLists, kinds: Sequence[Resource[Object]]) -> ObjectsByKind:
    """Read all objects of an integration's kinds, as far as the user may read them.

    If one of the kinds is not served, no objects are read: the integration needs all its kinds.

    Args:
        lists: sends the LISTs, in the namespaces that the user may read.

    Raises:
        ControllerError: a request failed, other than a LIST that is forbidden to the user.
    """
    objects = ObjectsByKind()
    for resource in kinds:
        if not await lists.client.is_served(resource):
            return ObjectsByKind()
    for resource in kinds:
        page = await lists.list_allowed(resource)
        if page is None:
            continue  # `not_read` has the kind, so that no caller counts its objects as missing
        objects.by_kind[resource.kind] = list(page.items)
        objects.unreadable.update(
            ((resource.kind, key), reason) for key, reason in page.unreadable.items()
        )
    return replace(objects, not_read=lists.not_read)


def is_of_kinds(body: Body, kinds: Iterable[Resource[Object]]) -> bool:
    """Return whether a manifest is of one of these kinds, of any version."""
    return find_resource(body, kinds) is not None


def list_implied(
    bodies: Sequence[Body],
    kind: Resource[T],
    implied: Resource[Object],
    find_named: Callable[[T], Key | None],
) -> Iterator[tuple[Resource[Object], Body]]:
    """Yield the objects that manifests name but do not contain, such as the Cluster of a claim.

    Nothing is yielded if some manifests are of the implied kind: then the user listed all objects
    of that kind.

    Args:
        bodies: manifests of any kinds.
        kind: the kind whose objects name objects of the implied kind. A manifest of this kind that
            cannot be decoded is ignored.
        implied: the kind of the named objects.
        find_named: returns the key that an object of `kind` names; None if it names no object.

    Yields:
        Kind and manifest of each named object, each once.
    """
    if any(is_of_kinds(body, [implied]) for body in bodies):
        return
    keys: dict[Key, None] = {}
    for body in bodies:
        if is_of_kinds(body, [kind]):
            with suppress(msgspec.ValidationError):
                if (key := find_named(msgspec.convert(body, kind.type))) is not None:
                    keys[key] = None
    for key in keys:
        yield implied, {"metadata": {"name": key.name, "namespace": key.namespace}, "spec": {}}


def find_resource(body: Body, kinds: Iterable[Resource[Object]]) -> Resource[Object] | None:
    """Return the kind of a manifest among these kinds; None if it is of another kind."""
    group_and_kind = str(body.get("apiVersion", "")).rpartition("/")[0], body.get("kind")
    return next((kind for kind in kinds if (kind.group, kind.kind) == group_and_kind), None)


def keep_unchanged(body: Body) -> Body:
    """Return a manifest unchanged."""
    return body


def stamp_metadata(
    metadata: Mapping[str, Any], kind: str, number: int, now: datetime
) -> dict[str, Any]:
    """Return a manifest's metadata with the uid, version and time that a server would fill in.

    Args:
        metadata: the manifest's metadata; a field that is null counts as absent, as on a server.
        kind: of the manifest.
        number: the position of the manifest among all; a later one counts as created later.
        now: the time.
    """
    return {
        "uid": f"planned-{kind}-{number}",
        "resourceVersion": str(number),
        "creationTimestamp": (now + timedelta(microseconds=number)).isoformat(),
        **{name: value for name, value in metadata.items() if value is not None},
    }


def decode_bodies(
    bodies: Iterable[Body],
    kinds: Sequence[Resource[Object]],
    namespace: str,
    now: datetime,
    fill_defaults: Callable[[Body], Body] = keep_unchanged,
) -> ObjectsByKind:
    """Return the objects of manifests, with the fields that a server fills in.

    Objects without a creationTimestamp count as created now, in the order of the manifests.

    Args:
        bodies: manifests; those of other kinds are ignored.
        kinds: the kinds to read.
        namespace: the namespace of manifests that name none.
        now: the time.
        fill_defaults: returns a manifest with the fields that other controllers of the platform
            fill in.
    """
    objects, numbers = ObjectsByKind(), count(1)
    for body in bodies:
        resource = find_resource(body, kinds)
        if resource is None:
            continue
        number, metadata = next(numbers), dict(body.get("metadata") or {})
        meta = stamp_metadata(metadata, resource.kind, number=number, now=now)
        meta["namespace"] = (metadata.get("namespace") or namespace) if resource.namespaced else ""
        key = Key(meta["namespace"], str(meta.get("name", "")))
        try:
            obj = msgspec.convert({**fill_defaults(body), "metadata": meta}, resource.type)
        except msgspec.ValidationError as error:
            objects.unreadable[resource.kind, key] = make_decode_failure(
                resource, body, metadata=meta, error=error
            )
            continue
        objects.by_kind.setdefault(resource.kind, []).append(obj)
    return objects
