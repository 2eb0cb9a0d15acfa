"""Namespaces, secrets, config maps and leases: what is special about each."""

import base64
import re
from collections.abc import Iterator
from itertools import chain, permutations
from typing import Any

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules, status_metadata
from envtest.schema.errors import FieldError, build_required_error, forbidden, invalid, too_long
from envtest.server.objectmeta import Body
from envtest.server.rules import keep_only

_LARGEST = 1024 * 1024
_LONGEST_KEY = 253
# The keys that secrets of a type must have.
_NEEDED = {
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
    """A namespace stays until its own finalizers, which are not metadata's, are gone."""

    marks_deletion = True

    @override
    def default(self, body: Body) -> None:
        meta = body["metadata"]
        if meta.get("name"):
            meta["labels"] = {
                **meta.get("labels", {}),
                "kubernetes.io/metadata.name": meta["name"],
            }

    @override
    def complete_new(self, body: Body) -> None:
        self.default(body)

    @override
    def prepare_create(self, body: Body) -> None:
        super().prepare_create(body)
        spec = body.setdefault("spec", {})
        spec["finalizers"] = list(dict.fromkeys([*spec.get("finalizers", ()), "kubernetes"]))
        body["status"] = {"phase": "Active"}

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        super().prepare_update(body, old)
        body["spec"] = old.get("spec", {})

    @override
    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        if name == "status":
            status_metadata(body, old)
            return
        spec: dict[str, Any] = dict(body.get("spec") or {})
        keep_only(body, old, "spec")
        body["spec"] = spec

    @override
    def field_value(self, body: Body, field: str) -> str:
        return super().field_value(body, "metadata.name" if field == "name" else field)

    @override
    def begin_deletion(self, body: Body) -> None:
        body["status"] = {**body.get("status", {}), "phase": "Terminating"}

    @override
    def is_finished(self, body: Body) -> bool:
        return super().is_finished(body) and not body.get("spec", {}).get("finalizers")


class KeyedRules(BuiltinRules):
    """Config maps: keys are checked, and `immutable` holds."""

    # Fields whose values are texts, and base64; and the path that a size error of all names.
    text_fields: tuple[str, ...] = ("data",)
    base64_fields: tuple[str, ...] = ("binaryData",)
    whole = "[]"

    @property
    def data_fields(self) -> tuple[str, ...]:
        """Return the names of the fields that map keys to values."""
        return (*self.text_fields, *self.base64_fields)

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        problems = [
            invalid(f"{part}[{key}]", key, error)
            for part in self.data_fields
            for key in body.get(part, ())
            for error in _key_errors(key)
        ]
        for part, other in permutations(self.data_fields, 2):
            both = [key for key in body.get(part, ()) if key in body.get(other, ())]
            detail = f"duplicate of key present in {other}"
            problems += [invalid(f"{part}[{key}]", key, detail) for key in both]
        sizes = (
            _sizes(body, part, is_base64=part in self.base64_fields) for part in self.data_fields
        )
        if sum(chain.from_iterable(sizes)) > _LARGEST:
            problems.append(too_long(self.whole, _LARGEST))
        if old is not None and old.get("immutable"):
            if not body.get("immutable"):
                problems.append(
                    forbidden("immutable", "field is immutable when `immutable` is set")
                )
            problems += [
                forbidden(part, "field is immutable when `immutable` is set")
                for part in self.data_fields
                if body.get(part) != old.get(part)
            ]
        return problems


class SecretRules(KeyedRules):
    """Secrets: stringData becomes data, the type is immutable, known types have their keys."""

    text_fields: tuple[str, ...] = ()
    base64_fields: tuple[str, ...] = ("data",)
    whole = "data"

    @override
    def default(self, body: Body) -> None:
        body.setdefault("type", "Opaque")
        texts = body.pop("stringData", None) or {}
        if texts:
            encoded = {
                key: base64.b64encode(value.encode()).decode() for key, value in texts.items()
            }
            body["data"] = {**body.get("data", {}), **encoded}

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        problems = [*super().check_content(body, old), *_type_problems(body)]
        if old is not None and body.get("type") != old.get("type"):
            problems.append(invalid("type", body.get("type", ""), "field is immutable"))
        return problems


def _key_errors(key: str) -> Iterator[str]:
    if len(key) > _LONGEST_KEY:
        yield f"must be no more than {_LONGEST_KEY} characters"
    if not re.fullmatch(_KEY, key):
        yield _KEY_TEXT
    if key in {".", ".."}:
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def _sizes(body: Body, part: str, *, is_base64: bool) -> Iterator[int]:
    """Yield how many bytes each value has; what is base64 counts as what it stands for."""
    for value in body.get(part, {}).values():
        yield len(base64.b64decode(value)) if is_base64 else len(value.encode())


def _type_problems(body: Body) -> Iterator[FieldError]:
    """Yield the keys that a secret of a known type lacks, as ValidateSecret does."""
    data = body.get("data", {})
    for key in _NEEDED.get(body.get("type", ""), ()):
        if key not in data:
            yield build_required_error(f"data[{key}]")


class LeaseRules(BuiltinRules):
    """Leases: durations and transitions are counts."""

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        spec = body.get("spec", {})
        problems = []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            problems.append(
                invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
            )
        if transitions is not None and transitions < 0:
            detail = "must be greater than or equal to 0"
            problems.append(invalid("spec.leaseTransitions", transitions, detail))
        return problems
