"""An integration's objects as a command reads them: from a cluster once, or from manifests."""

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
    """Everything of some kinds that there is.

    Args:
        by_kind: the objects by kind.
        unreadable: those that could not be decoded, by kind and key, with the reason.
        bodies: the manifests that they were read from, by kind and key.
        not_read: the kinds, or kinds of other namespaces, that the user may not read.
    """

    by_kind: dict[str, list[Any]] = field(default_factory=dict)
    unreadable: dict[tuple[str, Key], str] = field(default_factory=dict)
    bodies: dict[tuple[str, Key], Mapping[str, Any]] = field(default_factory=dict)
    not_read: Sequence[NotRead] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing of them."""
        return not any(self.by_kind.values()) and not self.unreadable

    def cache(self, resource: Resource[T], **more: Any) -> Cache[T]:
        """Return a cache of the objects of a kind, as a list would have filled it."""
        return fill_cache(resource, self.by_kind.get(resource.kind, ()), self.unreadable, **more)


def fill_cache(
    resource: Resource[T],
    objects: Iterable[T],
    unreadable: Mapping[tuple[str, Key], str],
    **more: Any,
) -> Cache[T]:
    """Return a cache of objects, as a list would have filled it.

    Args:
        resource: their kind.
        objects: the objects that could be decoded.
        unreadable: those that could not be, of any kind, by kind and key, with the reason.
        **more: what the cache is made with, its indexes for example.
    """
    listed = list(objects)
    of_kind = {key: why for (kind, key), why in unreadable.items() if kind == resource.kind}
    cache = Cache(resource, **more)
    cache.replace(listed, max((obj.metadata.revision for obj in listed), default=0), of_kind)
    return cache


def decode_failure(
    resource: Resource[Object],
    body: Mapping[str, Any],
    metadata: Mapping[str, Any],
    error: Exception,
) -> DecodeFailure:
    """Return why a manifest is not an object of its kind, with the parts that can be decoded.

    Args:
        resource: its kind.
        body: the manifest.
        metadata: the manifest's, with what a server fills in.
        error: why it could not be converted.
    """
    outline = decoded = None
    with suppress(msgspec.ValidationError):
        decoded = msgspec.convert(metadata, ObjectMeta)
        if resource.outline is not None:
            outline = msgspec.convert({**body, "metadata": metadata}, resource.outline)
    return DecodeFailure(str(error), outline, decoded)


async def read(lists: ScopedLists, kinds: Sequence[Resource[Object]]) -> ObjectsByKind:
    """Read all objects of kinds, as far as they may be read; none if a kind is not served.

    Args:
        lists: for the lists.

    Raises:
        ControllerError: the cluster did not answer, or refused.
    """
    objects = ObjectsByKind()
    for resource in kinds:
        if not await lists.client.is_served(resource):
            return ObjectsByKind()
    for resource in kinds:
        page = await lists.list_allowed(resource)
        if page is None:
            continue  # `not_read` says so, and no caller takes what may exist for missing
        objects.by_kind[resource.kind] = list(page.items)
        objects.unreadable.update(
            ((resource.kind, key), reason) for key, reason in page.unreadable.items()
        )
    return replace(objects, not_read=lists.not_read)


def is_of(body: Body, kinds: Iterable[Resource[Object]]) -> bool:
    """Return whether a manifest is of one of these kinds, of any version."""
    return resource_of(body, kinds) is not None


def list_implied(
    bodies: Sequence[Body],
    kind: Resource[T],
    implied: Resource[Object],
    find: Callable[[T], Key | None],
) -> Iterator[tuple[Resource[Object], Body]]:
    """Yield the objects that manifests of a kind name, each once.

    Nothing is yielded if there are manifests of such objects: then they are all that there is.

    Args:
        bodies: manifests of any kinds.
        kind: whose manifests name objects; those that cannot be decoded name none.
        implied: the kind of the objects that are named.
        find: returns the object that one of `kind` names; None for none.
    """
    if any(is_of(body, [implied]) for body in bodies):
        return
    keys: dict[Key, None] = {}
    for body in bodies:
        if is_of(body, [kind]):
            with suppress(msgspec.ValidationError):
                if (key := find(msgspec.convert(body, kind.type))) is not None:
                    keys[key] = None
    for key in keys:
        yield implied, {"metadata": {"name": key.name, "namespace": key.namespace}, "spec": {}}


def resource_of(body: Body, kinds: Iterable[Resource[Object]]) -> Resource[Object] | None:
    """Return the kind of a manifest among these kinds; None if it is of another kind."""
    group_and_kind = str(body.get("apiVersion", "")).rpartition("/")[0], body.get("kind")
    return next((kind for kind in kinds if (kind.group, kind.kind) == group_and_kind), None)


def as_it_is(body: Body) -> Body:
    """Return a manifest unchanged."""
    return body


def stamped_metadata(
    metadata: Mapping[str, Any], kind: str, number: int, now: datetime
) -> dict[str, Any]:
    """Return a manifest's metadata with the uid, version and time that a server would fill in.

    Args:
        metadata: the manifest's metadata; a field that is null counts as absent, as on a server.
        kind: of the manifest.
        number: of the manifest among all; a later manifest counts as created later.
        now: the time.
    """
    return {
        "uid": f"planned-{kind}-{number}",
        "resourceVersion": str(number),
        "creationTimestamp": (now + timedelta(microseconds=number)).isoformat(),
        **{name: value for name, value in metadata.items() if value is not None},
    }


def from_bodies(
    bodies: Iterable[Body],
    kinds: Sequence[Resource[Object]],
    namespace: str,
    now: datetime,
    filled: Callable[[Body], Body] = as_it_is,
) -> ObjectsByKind:
    """Return the objects of manifests; what a server fills in is filled in.

    Objects without a creationTimestamp count as created now, in the order of the manifests.

    Args:
        bodies: of any kinds; others are passed over.
        kinds: which are read.
        namespace: of those that name none.
        now: the time.
        filled: fills in what other controllers of the platform would.
    """
    objects, numbers = ObjectsByKind(), count(1)
    for body in bodies:
        resource = resource_of(body, kinds)
        if resource is None:
            continue
        number, metadata = next(numbers), dict(body.get("metadata") or {})
        meta = stamped_metadata(metadata, resource.kind, number=number, now=now)
        meta["namespace"] = (metadata.get("namespace") or namespace) if resource.namespaced else ""
        key = Key(meta["namespace"], str(meta.get("name", "")))
        try:
            typed = msgspec.convert({**filled(body), "metadata": meta}, resource.type)
        except msgspec.ValidationError as error:
            objects.unreadable[resource.kind, key] = decode_failure(
                resource, body, metadata=meta, error=error
            )
            continue
        objects.by_kind.setdefault(resource.kind, []).append(typed)
        placed = {**metadata, "namespace": key.namespace} if resource.namespaced else metadata
        objects.bodies[resource.kind, key] = {**body, "metadata": placed}
    return objects
