"""Defaults, validation and warnings of a whole CustomResourceDefinition.

If a field is equal in all versions, the server keeps it once at the top of the spec (it is
hoisted). Its messages then say `spec.validation`, `spec.subresources` and so on, instead of naming
a version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from envtest.schema import formats
from envtest.schema.crd import versions as per_version
from envtest.schema.errors import (
    FieldError,
    build_forbidden_error,
    build_invalid_error,
    build_not_supported_error,
    build_required_error,
)
from envtest.schema.names import find_label_1035_errors, find_subdomain_errors
from envtest.schema.webhookclients import find_client_errors

_APPROVAL: Final = "api-approved.kubernetes.io"
_APPROVAL_RULE: Final = "https://github.com/kubernetes/enhancements/pull/1111"
_Body = Mapping[str, Any]


def set_crd_defaults(crd: dict[str, Any]) -> None:
    """Set the defaults of a CRD, in place: names, conversion, webhook port, stored versions."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    # A CRD without a kind gets no singular name either; both are then reported as missing.
    if not names["singular"]:
        del names["singular"]
    spec.setdefault("scope", "")
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    status = crd.get("status")
    # As SetDefaults_CustomResourceDefinition does; validation refuses several storage versions.
    if status is not None and not status.get("storedVersions"):
        storage_versions = [
            version["name"] for version in spec.get("versions") or () if version.get("storage")
        ]
        status["storedVersions"] = storage_versions[:1]


def validate_crd(crd: _Body, old: _Body | None = None) -> list[FieldError]:
    """Return the errors of a CRD, in the server's order.

    The errors of metadata are left to the caller, with two exceptions: whether the name fits group
    and plural, and whether a protected group has an approval.

    Args:
        crd: the definition with defaults; `status.storedVersions` as it will be stored.
        old: the stored definition that it replaces; None for a new one. Group and plural never
            change; scope and kind do not change once the CRD is established.
    """
    spec = crd.get("spec") or {}
    out: list[FieldError] = []
    if old is None:
        out += _find_name_errors(crd, spec)
    out += _find_spec_errors(spec)
    if old is not None:
        out += _find_change_errors(spec, old)
    out += _find_stored_errors(crd, spec)
    return out + _find_approval_errors(crd, spec)


def find_crd_warnings(crd: _Body) -> list[str]:
    """Return the warnings at a CRD's creation: one for each format that is not recognized."""
    names: dict[str, None] = {}
    for version in (crd.get("spec") or {}).get("versions") or ():
        for node in _iterate_nodes((version.get("schema") or {}).get("openAPIV3Schema")):
            name = node.get("format") or ""
            if formats.is_unrecognized(name, node.get("type") or ""):
                names[name] = None
    return [f'unrecognized format "{name}"' for name in names]


def _iterate_nodes(schema: object) -> Iterator[_Body]:
    """Yield a schema and all schemas below it, except in branches such as anyOf."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for child in (schema.get("properties") or {}).values():
        yield from _iterate_nodes(child)
    yield from _iterate_nodes(schema.get("items"))
    yield from _iterate_nodes(schema.get("additionalProperties"))


def _find_name_errors(crd: _Body, spec: _Body) -> list[FieldError]:
    """Return the error of a name that is not `plural.group`.

    A missing name is an error of metadata, which the caller reports.
    """
    name = (crd.get("metadata") or {}).get("name") or ""
    plural = (spec.get("names") or {}).get("plural") or ""
    if not name or name == f"{plural}.{spec.get('group') or ''}":
        return []
    return [build_invalid_error("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _find_spec_errors(spec: _Body) -> list[FieldError]:
    """Return all errors of a CRD's spec, in the server's order."""
    versions = spec.get("versions")
    hoisted = per_version.find_hoisted_fields(versions or [])
    out = _find_group_errors(spec)
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        out.append(build_invalid_error("spec.preserveUnknownFields", True, detail))
    out += per_version.find_missing_schemas(versions or [])
    for index, version in enumerate(versions or ()):
        out += per_version.find_version_errors(version, f"spec.versions[{index}]", hoisted)
    out += _find_version_list_errors(versions)
    out += _find_missing_name_errors(spec.get("names") or {})
    out += find_names_errors(spec.get("names") or {}, "spec.names")
    if versions:
        out += per_version.find_shared_errors(versions, hoisted)
    return out + find_conversion_errors(spec.get("conversion"))


def _find_group_errors(spec: _Body) -> list[FieldError]:
    """Return the errors of `spec.group` and `spec.scope`."""
    group, scope = spec.get("group") or "", spec.get("scope") or ""
    out: list[FieldError] = []
    if not group:
        out.append(build_required_error("spec.group"))
    elif errors := find_subdomain_errors(group):
        out.append(build_invalid_error("spec.group", group, ",".join(errors)))
    elif "." not in group:
        out.append(
            build_invalid_error("spec.group", group, "should be a domain with at least one dot")
        )
    if not scope:
        out.append(build_required_error("spec.scope"))
    elif scope not in {"Cluster", "Namespaced"}:
        out.append(build_not_supported_error("spec.scope", scope, ("Cluster", "Namespaced")))
    return out


def _find_version_list_errors(versions: Any) -> list[FieldError]:
    """Return the errors of the versions' names and of the storage version."""
    entries = versions or []
    names = [version.get("name") or "" for version in entries]
    out: list[FieldError] = []
    if len(set(names)) != len(names):
        out.append(
            build_invalid_error("spec.versions", versions, "must contain unique version names")
        )
    if sum(1 for version in entries if version.get("storage")) != 1:
        detail = "must have exactly one version marked as storage version"
        out.append(build_invalid_error("spec.versions", versions, detail))
    # The server sets the old field `spec.version` to the first version, and validates it as well.
    if names and names[0] and (errors := find_label_1035_errors(names[0])):
        out.append(build_invalid_error("spec.version", names[0], ",".join(errors)))
    return out


def _find_missing_name_errors(names: _Body) -> list[FieldError]:
    """Return an error for each missing name of a CRD."""
    fields = ("plural", "singular", "kind", "listKind")
    return [build_required_error(f"spec.names.{name}") for name in fields if not names.get(name)]


def find_names_errors(names: _Body, path: str) -> list[FieldError]:
    """Return the errors of a CRD's names in `spec.names` or `status.acceptedNames`."""
    out: list[FieldError] = []
    for name in ("plural", "singular"):
        out += _validate_label(names.get(name) or "", f"{path}.{name}")
    for name in ("kind", "listKind"):
        kind = names.get(name) or ""
        if kind and (errors := find_label_1035_errors(kind.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(errors)
            out.append(build_invalid_error(f"{path}.{name}", kind, detail))
    for index, name in enumerate(names.get("shortNames") or ()):
        out += _validate_label(name, f"{path}.shortNames[{index}]", allow_empty=False)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        out.append(build_invalid_error(f"{path}.listKind", names["kind"], detail))
    for index, name in enumerate(names.get("categories") or ()):
        out += _validate_label(name, f"{path}.categories[{index}]", allow_empty=False)
    return out


def _validate_label(label: str, path: str, *, allow_empty: bool = True) -> list[FieldError]:
    """Return the error of a name that is no DNS-1035 label and, if allowed, not empty."""
    errors = find_label_1035_errors(label) if label or not allow_empty else []
    return [build_invalid_error(path, label, ",".join(errors))] if errors else []


def _find_change_errors(spec: _Body, old: _Body) -> list[FieldError]:
    """Return an error for each immutable field of a spec that differs from the old CRD."""
    old_spec = old.get("spec") or {}
    names, old_names = spec.get("names") or {}, old_spec.get("names") or {}
    pairs = [
        ("spec.group", spec.get("group"), old_spec.get("group")),
        ("spec.names.plural", names.get("plural"), old_names.get("plural")),
    ]
    if _is_established(old):
        # The real server reports these first.
        pairs[:0] = [
            ("spec.scope", spec.get("scope"), old_spec.get("scope")),
            ("spec.names.kind", names.get("kind"), old_names.get("kind")),
        ]
    return [
        build_invalid_error(path, new or "", "field is immutable")
        for path, new, old_value in pairs
        if new != old_value
    ]


def _is_established(crd: _Body) -> bool:
    """Return whether condition Established of a CRD is True."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _find_stored_errors(crd: _Body, spec: _Body) -> list[FieldError]:
    """Return the errors of `status.storedVersions`."""
    stored = (crd.get("status") or {}).get("storedVersions")
    path = "status.storedVersions"
    if not stored:
        return [build_invalid_error(path, None, "must have at least one stored version")]
    out: list[FieldError] = []
    spec_names = set()
    for version in spec.get("versions") or ():
        name = version.get("name") or ""
        spec_names.add(name)
        if version.get("storage") and name not in stored:
            out.append(build_invalid_error(path, stored, f"must have the storage version {name}"))
    for index, name in enumerate(stored):
        if name not in spec_names:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            out.append(build_invalid_error(f"{path}[{index}]", name, detail))
    return out


def _find_approval_errors(crd: _Body, spec: _Body) -> list[FieldError]:
    """Return the error of a missing or wrong approval; only Kubernetes' own groups need one."""
    if not f".{spec.get('group') or ''}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    value = ((crd.get("metadata") or {}).get("annotations") or {}).get(_APPROVAL)
    path = f"metadata.annotations[{_APPROVAL}]"
    rule = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not value:
        return [build_required_error(path, f"{rule}, see {_APPROVAL_RULE}")]
    if value.startswith(("http://", "https://", "unapproved")):
        return []
    detail = (
        f'{rule} with either a URL or a reason starting with "unapproved", see {_APPROVAL_RULE}'
    )
    return [build_invalid_error(path, value, detail)]


_PATH: Final = "spec.conversion"
_CLIENT: Final = f"{_PATH}.webhookClientConfig"
_REVIEWS: Final = f"{_PATH}.conversionReviewVersions"


def find_conversion_errors(conversion: _Body | None) -> list[FieldError]:
    """Return the errors of `spec.conversion`.

    The caBundle is not validated, because this server calls no conversion webhook.
    """
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    out: list[FieldError] = []
    if not strategy:
        out.append(build_required_error(f"{_PATH}.strategy"))
    elif strategy not in {"None", "Webhook"}:
        out.append(build_not_supported_error(f"{_PATH}.strategy", strategy, ("None", "Webhook")))
    reviews = webhook.get("conversionReviewVersions") or []
    if strategy == "Webhook":
        out += _find_client_errors(webhook.get("clientConfig"))
        return out + _find_review_errors(reviews)
    detail = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig") is not None:
        out.append(build_forbidden_error(_CLIENT, detail))
    if reviews:
        out.append(build_forbidden_error(_REVIEWS, detail))
    return out


def _find_client_errors(config: _Body | None) -> list[FieldError]:
    """Return the errors of the client configuration of a conversion webhook."""
    if config is None:
        return [build_required_error(_CLIENT, "required when strategy is set to Webhook")]
    return find_client_errors(config, _CLIENT)


def _find_review_errors(reviews: Sequence[str]) -> list[FieldError]:
    """Return the errors of `conversionReviewVersions`."""
    if not reviews:
        return [build_required_error(_REVIEWS)]
    out: list[FieldError] = []
    for index, version in enumerate(reviews):
        if version in reviews[:index]:
            # A duplicate is reported instead of its other errors, which the first one has as well.
            out.append(build_invalid_error(f"{_REVIEWS}[{index}]", version, "duplicate version"))
            continue
        errors = find_label_1035_errors(version)
        out += [build_invalid_error(f"{_REVIEWS}[{index}]", version, error) for error in errors]
    if not {"v1", "v1beta1"} & set(reviews):
        out.append(
            build_invalid_error(
                _REVIEWS, list(reviews), "must include at least one of v1, v1beta1"
            )
        )
    return out
