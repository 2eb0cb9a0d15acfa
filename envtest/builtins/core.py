"""Namespaces, secrets, config maps and leases: what is special about each."""

import base64
import re
from typing import Any

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules, status_metadata
from envtest.schema.errors import FieldError, forbidden, invalid, too_long
from envtest.server.objectmeta import Body
from envtest.server.rules import keep_only

_LARGEST = 1024 * 1024
_KEY = "[-._a-zA-Z0-9]+"
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_KEY}')"
)


class NamespaceRules(BuiltinRules):
    """A namespace stays until its own finalizers, which are not metadata's, are gone."""

    @override
    def default(self, body: Body) -> None:
        meta = body["metadata"]
        if meta.get("name"):
            meta["labels"] = {
                **meta.get("labels", {}),
                "kubernetes.io/metadata.name": meta["name"],
            }

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
        body["metadata"].pop("deletionGracePeriodSeconds", None)
        body["status"] = {**body.get("status", {}), "phase": "Terminating"}

    @override
    def is_finished(self, body: Body) -> bool:
        return super().is_finished(body) and not body.get("spec", {}).get("finalizers")


class KeyedRules(BuiltinRules):
    """Config maps: keys are checked, and `immutable` holds."""

    parts: tuple[str, ...] = ("data", "binaryData")

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        size = sum(len(text) for part in self.parts for text in body.get(part, {}).values())
        if size > _LARGEST:
            return [too_long("[]", _LARGEST)]
        found = [
            invalid(f"{part}[{key}]", key, _KEY_TEXT)
            for part in self.parts
            for key in body.get(part, ())
            if not re.fullmatch(_KEY, key)
        ]
        if old is not None and old.get("immutable"):
            if not body.get("immutable"):
                found.append(forbidden("immutable", "field is immutable when `immutable` is set"))
            found += [
                forbidden(part, "field is immutable when `immutable` is set")
                for part in self.parts
                if body.get(part) != old.get(part)
            ]
        return found


class SecretRules(KeyedRules):
    """Secrets: texts become data, and the type stays."""

    parts: tuple[str, ...] = ("data",)

    @override
    def default(self, body: Body) -> None:
        body.setdefault("type", "Opaque")
        texts = body.pop("stringData", None) or {}
        if texts:
            coded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            body["data"] = {**body.get("data", {}), **coded}

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        found = super().check_content(body, old)
        if old is not None and body.get("type") != old.get("type"):
            found.append(invalid("type", body.get("type", ""), "field is immutable"))
        return found


class LeaseRules(BuiltinRules):
    """Leases: durations and transitions are counts."""

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        spec = body.get("spec", {})
        found = []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            found.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            text = "must be greater than or equal to 0"
            found.append(invalid("spec.leaseTransitions", transitions, text))
        return found
