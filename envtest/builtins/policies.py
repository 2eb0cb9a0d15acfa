"""Admission policies and their bindings: defaults and checks of admissionregistration.k8s.io.

Texts and order follow its validation. They are kept, and not put to work: whoever makes one is
told so. Of CEL, only the conditions are compiled.
"""

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from typing_extensions import override

from envtest.builtins.policymatching import (
    default_match,
    kind_problems,
    match_problems,
    reference_problems,
)
from envtest.builtins.shaped import ShapedRules
from envtest.builtins.webhooks import condition_problems
from envtest.schema.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from envtest.schema.names import qualified_name_errors, subdomain_errors
from envtest.server.objectmeta import Body

_FAILURES: Final = ("Fail", "Ignore")
_REINVOCATIONS: Final = ("IfNeeded", "Never")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_PATCHES: Final = ("ApplyConfiguration", "JSONPatch")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_MOST_ANNOTATIONS: Final = 20
_LONGEST_VALUE: Final = 5 * 1024
_RESERVED: Final = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package"
    "|namespace|return|var|void|while"
)


class _Unenforced(ShapedRules):
    """What is kept here and not acted upon; whoever makes one is told."""

    counting: ClassVar[bool] = True
    conditional: ClassVar[bool] = True

    @override
    def warnings(self, body: Body, old: Body | None) -> list[str]:
        return _unenforced(self.kind) if old is None else []


class PolicyRules(_Unenforced):
    """ValidatingAdmissionPolicy and MutatingAdmissionPolicy."""

    @override
    def default(self, body: Body) -> None:
        super().default(body)
        body["spec"].setdefault("failurePolicy", "Fail")
        default_match(body["spec"].get("matchConstraints"))

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec = body["spec"]
        if spec["failurePolicy"] not in _FAILURES:
            yield not_supported("spec.failurePolicy", spec["failurePolicy"], _FAILURES)
        if "paramKind" in spec:
            yield from kind_problems(spec["paramKind"], "spec.paramKind")
        match = spec.get("matchConstraints")
        if match is None:
            yield required("spec.matchConstraints")
        else:
            yield from match_problems(match, "spec.matchConstraints")
            if not match.get("resourceRules"):
                yield required("spec.matchConstraints.resourceRules")
        if "paramKind" not in spec:
            conditions = spec.get("matchConditions") or ()
            yield from condition_problems(conditions, "spec.matchConditions")
        for at, variable in enumerate(spec.get("variables") or ()):
            yield from _variable_problems(variable, f"spec.variables[{at}]")
        if self.kind.startswith("Mutating"):
            yield from _mutation_problems(spec)
        else:
            yield from _validation_problems(spec, body["metadata"].get("name", ""))


class PolicyBindingRules(_Unenforced):
    """ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding."""

    @override
    def default(self, body: Body) -> None:
        super().default(body)
        default_match(body["spec"].get("matchResources"))

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec = body["spec"]
        name = spec.get("policyName", "")
        if not name:
            yield required("spec.policyName")
        for error in subdomain_errors(name) if name else ():
            yield invalid("spec.policyName", name, error)
        if "paramRef" in spec:
            yield from reference_problems(spec["paramRef"], "spec.paramRef")
        if "matchResources" in spec:
            yield from match_problems(spec["matchResources"], "spec.matchResources")
        if self.kind.startswith("Validating"):
            yield from _action_problems(spec.get("validationActions") or [])


def _unenforced(kind: str) -> list[str]:
    return [f"this server stores {kind} objects, but does not enforce them"]


def _variable_problems(variable: Body, path: str) -> Iterator[FieldError]:
    name = variable.get("name", "")
    if not name.strip():
        yield required(f"{path}.name", "name is not specified")
    elif not re.fullmatch("[_a-zA-Z][_a-zA-Z0-9]*", name) or _RESERVED.fullmatch(name):
        yield invalid(f"{path}.name", name, "name is not a valid CEL identifier")
    if not variable.get("expression", "").strip():
        yield required(f"{path}.expression", "expression is not specified")


def _validation_problems(spec: Body, name: str) -> Iterator[FieldError]:
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or []
    if not validations and not annotations:
        text = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", text)
        yield required("spec.auditAnnotations", text)
    for at, one in enumerate(validations):
        yield from _message_problems(one, f"spec.validations[{at}]")
    if len(annotations) > _MOST_ANNOTATIONS:
        text = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield invalid("spec.auditAnnotations", annotations, text)
    keys: set[str] = set()
    for at, one in enumerate(annotations):
        yield from _annotation_problems(one, name, f"spec.auditAnnotations[{at}]")
        key = one.get("key", "")
        if key in keys:
            yield duplicate(f"spec.auditAnnotations[{at}].key", key)
        keys.add(key)


def _message_problems(one: Body, path: str) -> Iterator[FieldError]:
    message = one.get("message", "")
    if not one.get("expression", "").strip():
        yield required(f"{path}.expression", "expression is not specified")
    worded = one.get("messageExpression", "")
    if worded and not worded.strip():
        yield invalid(f"{path}.messageExpression", worded, "must be non-empty if specified")
    if message and not message.strip():
        text = "message must be non-empty if specified"
        yield invalid(f"{path}.message", message, text)
    elif re.search(r"[\n\r]", message.strip()):
        yield invalid(f"{path}.message", message, "message must not contain line breaks")
    if one.get("reason", "Invalid") not in _REASONS:
        yield not_supported(f"{path}.reason", one["reason"], _REASONS)


def _annotation_problems(one: Body, name: str, path: str) -> Iterator[FieldError]:
    key, value = one.get("key", ""), one.get("valueExpression", "").strip()
    for error in qualified_name_errors(f"{name}/{key}"):
        yield invalid(f"{path}.key", f"{name}/{key}", error)
    if not value:
        yield required(f"{path}.valueExpression", "valueExpression is not specified")
    elif len(value.encode()) > _LONGEST_VALUE:
        text = f"must not exceed {_LONGEST_VALUE} bytes in length"
        yield required(f"{path}.valueExpression", text)


def _mutation_problems(spec: Body) -> Iterator[FieldError]:
    again = spec.get("reinvocationPolicy", "")
    if not again:
        yield required("spec.reinvocationPolicy")
    elif again not in _REINVOCATIONS:
        yield not_supported("spec.reinvocationPolicy", again, _REINVOCATIONS)
    mutations: Sequence[Body] = spec.get("mutations") or ()
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for at, one in enumerate(mutations):
        yield from _patch_problems(one, f"spec.mutations[{at}]")


def _patch_problems(one: Body, path: str) -> Iterator[FieldError]:
    kind = one.get("patchType", "")
    if not kind:
        yield required(f"{path}.patchType")
        return
    if kind not in _PATCHES:
        yield not_supported(f"{path}.patchType", kind, _PATCHES)
        return
    field, other = "jsonPatch", "applyConfiguration"
    if kind == "ApplyConfiguration":
        field, other = other, field
    if field not in one:
        yield required(f"{path}.{field}", f"must be specified when patchType is {kind}")
    elif not one[field].get("expression", "").strip():
        yield required(f"{path}.{field}.expression", "expression is not specified")
    if other in one:
        yield forbidden(f"{path}.{other}", f"may not be specified when patchType is {kind}")


def _action_problems(actions: list[str]) -> Iterator[FieldError]:
    path = "spec.validationActions"
    for at, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"{path}[{at}]", action, _ACTIONS)
        if action in actions[:at]:
            yield duplicate(f"{path}[{at}]", action)
    if {"Deny", "Warn"} <= set(actions):
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        yield invalid(path, actions, text)
    if not actions:
        yield required(path, "at least one validation action is required")
