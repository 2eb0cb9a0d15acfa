"""The rules of namespaces, secrets, config maps and leases."""

import base64
import re
from collections.abc import Iterator
from itertools import chain, permutations

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules, restore_all_but_status
from envtest.schema.errors import (
    FieldError,
    build_forbidden_error,
    build_invalid_error,
    build_required_error,
    build_too_long_error,
)
from envtest.server.objectmeta import Body
from envtest.server.rules import restore_other_fields

_LARGEST_BYTES = 1024 * 1024
_LONGEST_KEY = 253
# Type of a secret -> the keys that it must have.
_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_KEY = "[-._a-zA-Z0-9]+"
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_KEY}')"
)


class NamespaceRules(BuiltinRules):
    """Namespaces. A terminating namespace stays until `spec.finalizers` is empty as well."""

    marks_deletion = True

    @override
    def set_defaults(self, body: Body) -> None:
        """Add the label that has the name of the namespace."""
        meta = body["metadata"]
        if meta.get("name"):
            meta["labels"] = {
                **meta.get("labels", {}),
                "kubernetes.io/metadata.name": meta["name"],
            }

    @override
    def set_fields_after_naming(self, body: Body) -> None:
        # A generated name is known only now.
        self.set_defaults(body)

    @override
    def prepare_create(self, body: Body) -> None:
        """Add the finalizer of the namespace controller, and the first status."""
        super().prepare_create(body)
        spec = body.setdefault("spec", {})
        spec["finalizers"] = list(dict.fromkeys([*spec.get("finalizers", ()), "kubernetes"]))
        body["status"] = {"phase": "Active"}

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        """Keep status and spec, which only subresources may change."""
        super().prepare_update(body, old)
        body["spec"] = old.get("spec", {})

    @override
    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        """Keep all but the part that the subresource, status or finalize, may change."""
        if name == "status":
            restore_all_but_status(body, old)
            return
        # `finalize` changes the spec alone, which has the finalizers. A missing one is empty.
        body["spec"] = dict(body.get("spec") or {})
        restore_other_fields(body, old, "spec")

    @override
    def read_field_value(self, body: Body, field: str) -> str:
        # Selectors of namespaces may say `name` for short.
        return super().read_field_value(body, "metadata.name" if field == "name" else field)

    @override
    def begin_deletion(self, body: Body) -> None:
        body["status"] = {**body.get("status", {}), "phase": "Terminating"}

    @override
    def can_be_removed(self, body: Body) -> bool:
        """Return whether a terminating namespace has no finalizers, in metadata or in the spec."""
        return super().can_be_removed(body) and not body.get("spec", {}).get("finalizers")


class KeyedRules(BuiltinRules):
    """The rules of config maps, most of which hold for secrets too: keys, size, `immutable`."""

    # The fields whose values are strings, those whose values are base64, and the path that an
    # error about the total size names.
    text_fields: tuple[str, ...] = ("data",)
    base64_fields: tuple[str, ...] = ("binaryData",)
    size_error_path = "[]"

    @property
    def data_fields(self) -> tuple[str, ...]:
        """The names of the fields that map keys to values."""
        return (*self.text_fields, *self.base64_fields)

    @override
    def find_content_errors(self, body: Body, old: Body | None) -> list[FieldError]:
        """Return the errors of keys, of the total size, and of changes of immutable fields."""
        problems = [
            build_invalid_error(f"{part}[{key}]", key, error)
            for part in self.data_fields
            for key in body.get(part, ())
            for error in _validate_key(key)
        ]
        for part, other_part in permutations(self.data_fields, 2):
            repeated_keys = [key for key in body.get(part, ()) if key in body.get(other_part, ())]
            detail = f"duplicate of key present in {other_part}"
            problems += [
                build_invalid_error(f"{part}[{key}]", key, detail) for key in repeated_keys
            ]
        sizes = (
            _iterate_sizes(body, part, is_base64=part in self.base64_fields)
            for part in self.data_fields
        )
        if sum(chain.from_iterable(sizes)) > _LARGEST_BYTES:
            problems.append(build_too_long_error(self.size_error_path, _LARGEST_BYTES))
        if old is not None and old.get("immutable"):
            if not body.get("immutable"):
                problems.append(
                    build_forbidden_error(
                        "immutable", "field is immutable when `immutable` is set"
                    )
                )
            problems += [
                build_forbidden_error(part, "field is immutable when `immutable` is set")
                for part in self.data_fields
                if body.get(part) != old.get(part)
            ]
        return problems


class SecretRules(KeyedRules):
    """Secrets: stringData becomes data, the type is immutable, known types have their keys."""

    text_fields: tuple[str, ...] = ()
    base64_fields: tuple[str, ...] = ("data",)
    size_error_path = "data"

    @override
    def set_defaults(self, body: Body) -> None:
        """Set the default type, and move stringData into data, encoded."""
        body.setdefault("type", "Opaque")
        texts = body.pop("stringData", None) or {}
        if texts:
            encoded = {
                key: base64.b64encode(value.encode()).decode() for key, value in texts.items()
            }
            body["data"] = {**body.get("data", {}), **encoded}

    @override
    def find_content_errors(self, body: Body, old: Body | None) -> list[FieldError]:
        """Return the errors of keys, size, `immutable` and type."""
        problems = [*super().find_content_errors(body, old), *_validate_type(body)]
        if old is not None and body.get("type") != old.get("type"):
            problems.append(
                build_invalid_error("type", body.get("type", ""), "field is immutable")
            )
        return problems


def _validate_key(key: str) -> Iterator[str]:
    """Yield why a key of a config map or secret is invalid."""
    if len(key) > _LONGEST_KEY:
        yield f"must be no more than {_LONGEST_KEY} characters"
    if not re.fullmatch(_KEY, key):
        yield _KEY_TEXT
    if key in {".", ".."}:
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def _iterate_sizes(body: Body, part: str, *, is_base64: bool) -> Iterator[int]:
    """Yield the number of bytes of each value of a field; base64 counts as its content."""
    for value in body.get(part, {}).values():
        yield len(base64.b64decode(value)) if is_base64 else len(value.encode())


def _validate_type(body: Body) -> Iterator[FieldError]:
    """Yield an error for each key that a secret of a known type lacks, as ValidateSecret does."""
    data = body.get("data", {})
    for key in _REQUIRED_KEYS.get(body.get("type", ""), ()):
        if key not in data:
            yield build_required_error(f"data[{key}]")


class LeaseRules(BuiltinRules):
    """Leases: durations and transitions are counts."""

    @override
    def find_content_errors(self, body: Body, old: Body | None) -> list[FieldError]:
        """Return the errors of a duration or a number of transitions that is out of range."""
        spec = body.get("spec", {})
        problems = []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            problems.append(
                build_invalid_error(
                    "spec.leaseDurationSeconds", duration, "must be greater than 0"
                )
            )
        if transitions is not None and transitions < 0:
            detail = "must be greater than or equal to 0"
            problems.append(build_invalid_error("spec.leaseTransitions", transitions, detail))
        return problems
