"""The rules of `metadata`: fields that the server sets, changes that it allows, and validation.

The order of checks and the texts follow apimachinery's ValidateObjectMeta and its registry's
BeforeCreate and BeforeUpdate.
"""

import secrets
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from controller.managedfields import validate_managed_fields
from envtest.schema.errors import (
    FieldError,
    build_forbidden_error,
    build_invalid_error,
    build_required_error,
)
from envtest.schema.names import find_label_errors, find_qualified_name_errors
from envtest.schema.objectmeta import add_annotation_errors, add_label_errors, add_owner_errors
from envtest.server.failures import to_field_error

Body = dict[str, Any]
NameRule = Callable[[str], list[str]]

# apimachinery's alphabet for generated names: no vowels, so no words.
_GENERATED = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX = 58
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)

_COLLECTION_CHECKS: tuple[tuple[str, Callable[[Any, str, list[FieldError]], None]], ...] = (
    ("labels", add_label_errors),
    ("annotations", add_annotation_errors),
    ("ownerReferences", add_owner_errors),
)


def format_current_time() -> str:
    """Return the current time as in metadata: RFC 3339 in UTC, whole seconds."""
    return _format_rfc3339(int(time.time()))


@lru_cache(maxsize=16)
def _format_rfc3339(second: int) -> str:
    """Format seconds since the epoch; cached because many writes happen within one second."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_path_segment_errors(name: str) -> list[str]:
    """Return why a name is not one segment of a URL path.

    This is the only rule for names of RBAC kinds, and part of the rules for all others.
    """
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def drop_deletion_fields(meta: Body) -> None:
    """Remove fields of a deletion, and selfLink, from an object that a client creates."""
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(name, None)


def set_creation_fields(meta: Body) -> None:
    """Set the fields that the server decides at creation: creationTimestamp, uid, a new name."""
    meta["creationTimestamp"] = format_current_time()
    meta["uid"] = str(uuid.uuid4())
    if meta.get("generateName") and not meta.get("name"):
        meta["name"] = generate_name(meta["generateName"])


def generate_name(prefix: str) -> str:
    """Return a prefix, cut if it is too long, with five random characters."""
    tail = "".join(secrets.choice(_GENERATED) for _ in range(5))
    return prefix[:_LONGEST_PREFIX] + tail


def find_metadata_errors(
    meta: Body, *, namespaced: bool, name_rule: NameRule, old: Body | None = None
) -> list[FieldError]:
    """Return the errors of metadata; `find_change_errors` compares it with the old metadata.

    Args:
        meta: the metadata.
        namespaced: whether the kind is namespaced.
        name_rule: returns the errors of a name.
        old: the metadata of the stored object, for an update. Values that equal it are not
            validated again.
    """
    problems: list[FieldError] = []
    old = old or {}
    name, prefix = meta.get("name", ""), meta.get("generateName", "")
    if prefix:
        # A prefix may end with a dash, as characters follow (apimachinery's maskTrailingDash).
        masked = prefix[:-1] + "a" if prefix.endswith("-") else prefix
        problems += [
            build_invalid_error("metadata.generateName", prefix, problem)
            for problem in name_rule(masked)
        ]
    if name and name != old.get("name"):
        problems += [
            build_invalid_error("metadata.name", name, problem) for problem in name_rule(name)
        ]
    elif not name:
        problems.append(build_required_error("metadata.name", "name or generateName is required"))
    if not namespaced or not meta.get("namespace") or meta["namespace"] != old.get("namespace"):
        problems += _validate_namespace(meta, namespaced=namespaced)
    if meta.get("generation", 0) < 0:
        detail = "must be greater than or equal to 0"
        problems.append(build_invalid_error("metadata.generation", meta["generation"], detail))
    _add_collection_errors(meta, old, problems)
    for finalizer in _get_if_changed(meta, old, "finalizers") or ():
        name_errors = find_qualified_name_errors(finalizer)
        problems += [
            build_invalid_error("metadata.finalizers", finalizer, problem)
            for problem in name_errors
        ]
    if meta.get("managedFields"):
        problems += map(to_field_error, validate_managed_fields({"metadata": meta}))
    return problems


def _validate_namespace(meta: Body, *, namespaced: bool) -> list[FieldError]:
    """Return the errors of a namespace, which only namespaced kinds have, and must have."""
    namespace = meta.get("namespace", "")
    if not namespaced:
        if namespace:
            return [build_forbidden_error("metadata.namespace", "not allowed on this type")]
        return []
    if not namespace:
        return [build_required_error("metadata.namespace")]
    return [
        build_invalid_error("metadata.namespace", namespace, problem)
        for problem in find_label_errors(namespace)
    ]


def restore_server_fields(meta: Body, old: Body) -> None:
    """Restore the fields of metadata that belong to the server from the old object.

    A changed creationTimestamp, deletionTimestamp or generation is undone without an error, and
    selfLink is dropped. The uid and the grace period are only filled in where they are absent.

    As ValidateObjectMetaAccessorUpdate and BeforeUpdate of apimachinery and apiserver do.
    """
    meta.setdefault("uid", old.get("uid", ""))
    meta["creationTimestamp"] = old.get("creationTimestamp")
    if "deletionTimestamp" in old:
        meta["deletionTimestamp"] = old["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in old:
        # A different value stays, and `find_change_errors` refuses it.
        meta.setdefault("deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"])
    meta.pop("selfLink", None)
    if "generation" in old:
        meta["generation"] = old["generation"]
    else:
        meta.pop("generation", None)


def find_change_errors(meta: Body, old: Body) -> list[FieldError]:
    """Return the errors of an update of metadata, compared with the stored metadata."""
    problems: list[FieldError] = []
    if old.get("deletionTimestamp"):
        old_finalizers = old.get("finalizers") or ()
        new_finalizers = [
            finalizer
            for finalizer in meta.get("finalizers") or ()
            if finalizer not in old_finalizers
        ]
        if new_finalizers:
            quoted = ", ".join(f'"{finalizer}"' for finalizer in sorted(set(new_finalizers)))
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{quoted}}}"
            )
            problems.append(build_forbidden_error("metadata.finalizers", detail))
    if not meta.get("resourceVersion"):
        problems.append(
            build_invalid_error("metadata.resourceVersion", "", "must be specified for an update")
        )
    problems += [
        build_invalid_error(f"metadata.{name}", meta.get(name, ""), "field is immutable")
        for name in _IMMUTABLE
        if meta.get(name) != old.get(name)
    ]
    _add_collection_errors(meta, old, problems)
    return problems


def _add_collection_errors(meta: Body, old: Body, problems: list[FieldError]) -> None:
    """Validate labels, annotations and ownerReferences; add their errors to `problems`."""
    for name, validate in _COLLECTION_CHECKS:
        part = _get_if_changed(meta, old, name)
        if part:
            validate(part, f"metadata.{name}", problems)


def _get_if_changed(meta: Body, old: Body, name: str) -> Any:
    """Return a part of metadata; None if it is the stored object's, which was validated before.

    A merge patch leaves the parts that it does not change as the very same Python objects, so
    identity is a cheap test. An equal copy is validated again, without harm.
    """
    part = meta.get(name)
    return None if part is old.get(name) else part
