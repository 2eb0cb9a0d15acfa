"""An object's metadata, as strictly as an API server reads it.

The rules are those of apimachinery's validation: names are DNS subdomains, namespaces DNS labels,
label keys qualified names, label values at most 63 characters.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from reconcilers.cli.reading.place import Step, shown

Fault = tuple[tuple[Step, ...], str]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_WORD = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")

_TEXTS = ("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink")
_TIMES = ("creationTimestamp", "deletionTimestamp")
KNOWN = frozenset(
    (
        *(*_TEXTS, *_TIMES, "labels", "annotations", "finalizers", "ownerReferences"),
        *("generation", "deletionGracePeriodSeconds", "managedFields"),
    )
)


def is_time(text: str) -> bool:
    """Return whether a text is a time as RFC 3339 writes it."""
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


def faults(meta: Any) -> Iterator[Fault]:
    """Yield what is wrong with `metadata`: a path, and a sentence's end."""
    if not isinstance(meta, Mapping):
        yield ("metadata",), "is missing" if meta is None else "has to be a mapping"
        return
    for name in (*_TEXTS, *_TIMES):
        value = meta.get(name)
        if value is not None and not isinstance(value, str):
            yield ("metadata", name), f"has to be a text, not {shown(value)}; quote it"
        elif name in _TIMES and value and not is_time(value):
            yield ("metadata", name), f"{value!r} is no time as in 2026-01-31T12:00:00Z"
    yield from _identity(meta)
    yield from _labels(meta.get("labels"))
    yield from _annotations(meta.get("annotations"))
    yield from _lists(meta)
    yield from _numbers(meta)


def _identity(meta: Mapping[str, Any]) -> Iterator[Fault]:
    name, namespace = meta.get("name"), meta.get("namespace")
    if not name:
        yield ("metadata", "name"), "is missing"
    elif isinstance(name, str) and not (len(name) <= 253 and _SUBDOMAIN.fullmatch(name)):
        yield (
            ("metadata", "name"),
            f"{name!r} has to be lower-case letters, digits, '-' and '.', as a DNS name",
        )
    if not isinstance(namespace, str) or not namespace:
        return
    if len(namespace) > 63 or not _NAMESPACE.fullmatch(namespace):
        yield (
            ("metadata", "namespace"),
            f"{namespace!r} has to be at most 63 lower-case letters, digits and '-'",
        )


def _labels(labels: Any) -> Iterator[Fault]:
    for key, value in _texts(labels):
        path = ("metadata", "labels", key)
        if not _is_qualified(key):
            yield path, f"{key!r} is no label key"
        if not isinstance(value, str):
            yield path, f"has to be a text, not {shown(value)}; quote it"
        elif value and not (len(value) <= 63 and _WORD.fullmatch(value)):
            yield path, f"{value!r} is no label value: at most 63 letters, digits, '-', '_', '.'"
    if labels is not None and not isinstance(labels, Mapping):
        yield ("metadata", "labels"), "has to be a mapping of texts"


def _annotations(annotations: Any) -> Iterator[Fault]:
    for key, value in _texts(annotations):
        path = ("metadata", "annotations", key)
        if not _is_qualified(key.lower()):
            yield path, f"{key!r} is no annotation key"
        if not isinstance(value, str):
            yield path, f"has to be a text, not {shown(value)}; quote it"
    if annotations is not None and not isinstance(annotations, Mapping):
        yield ("metadata", "annotations"), "has to be a mapping of texts"


def _texts(values: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(values, Mapping):
        yield from values.items()


def _is_qualified(key: str) -> bool:
    prefix, slash, word = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(word) <= 63 and _WORD.fullmatch(word) is not None


def _lists(meta: Mapping[str, Any]) -> Iterator[Fault]:
    finalizers = meta.get("finalizers")
    if finalizers is not None and not (
        isinstance(finalizers, list) and all(isinstance(one, str) for one in finalizers)
    ):
        yield ("metadata", "finalizers"), "has to be a list of texts"
    owners = meta.get("ownerReferences")
    if owners is not None and not (
        isinstance(owners, list) and all(isinstance(one, Mapping) for one in owners)
    ):
        yield ("metadata", "ownerReferences"), "has to be a list of mappings"


def _numbers(meta: Mapping[str, Any]) -> Iterator[Fault]:
    generation = meta.get("generation")
    if generation is not None and (
        isinstance(generation, bool) or not isinstance(generation, int)
    ):
        yield ("metadata", "generation"), f"has to be a whole number, not {shown(generation)}"
    version = meta.get("resourceVersion")
    if isinstance(version, str) and version and not version.isdecimal():
        yield ("metadata", "resourceVersion"), f"{version!r} is no resourceVersion: not a number"
