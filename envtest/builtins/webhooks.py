"""The rules of webhook configurations (admissionregistration.k8s.io): defaults and validation.

Texts and order of the errors are those of kube-apiserver; `envtest.admission` calls the webhooks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.schema.cel import compile_condition
from envtest.schema.errors import (
    FieldError,
    build_duplicate_error,
    build_forbidden_error,
    build_invalid_error,
    build_not_supported_error,
    build_required_error,
    build_too_many_error,
)
from envtest.schema.names import (
    find_label_value_errors,
    find_qualified_name_errors,
    find_subdomain_errors,
)
from envtest.schema.webhookclients import find_client_errors
from envtest.server.objectmeta import Body

_DEFAULTS: Final = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}
_REVIEWS: Final = "v1, v1beta1"
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "sideEffects": ("None", "NoneOnDryRun"),
}
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_LONGEST_SECONDS: Final = 30
_MOST_CONDITIONS: Final = 64


class WebhookRules(BuiltinRules):
    """ValidatingWebhookConfigurations and MutatingWebhookConfigurations."""

    @override
    def set_defaults(self, body: Body) -> None:
        for hook in body.get("webhooks") or ():
            for name, value in _DEFAULTS.items():
                hook.setdefault(name, value)
            for name in ("namespaceSelector", "objectSelector"):
                hook.setdefault(name, {})
            if self.kind.startswith("Mutating"):
                hook.setdefault("reinvocationPolicy", "Never")
            service = (hook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")

    @override
    def find_content_errors(self, body: Body, old: Body | None) -> list[FieldError]:
        return list(_validate_hooks(body.get("webhooks") or ()))


def _validate_hooks(hooks: Sequence[Body]) -> Iterator[FieldError]:
    """Yield the errors of the webhooks of a configuration, whose names must differ."""
    names: set[str] = set()
    for index, hook in enumerate(hooks):
        path = f"webhooks[{index}]"
        yield from _validate_hook(hook, path)
        name = hook.get("name") or ""
        if name and name in names:
            yield build_duplicate_error(f"{path}.name", name)
        names.add(name)


def _validate_hook(hook: Body, path: str) -> Iterator[FieldError]:
    """Yield the errors of one webhook of a configuration."""
    yield from _validate_name(hook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        yield from _validate_rule(rule, f"{path}.rules[{index}]")
    for name, choices in _CHOICES.items():
        if name == "sideEffects" and not hook.get(name):
            yield build_required_error(
                f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"
            )
        else:
            yield from _validate_choice(hook, name, choices=choices, path=path)
    seconds = hook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= _LONGEST_SECONDS:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield build_invalid_error(f"{path}.timeoutSeconds", seconds, detail)
    for name in ("namespaceSelector", "objectSelector"):
        yield from _validate_selector(hook.get(name) or {}, f"{path}.{name}")
    versions = hook.get("admissionReviewVersions") or []
    if not {"v1", "v1beta1"} & set(versions):
        detail = f"must include at least one of {_REVIEWS}"
        yield build_invalid_error(f"{path}.admissionReviewVersions", versions, detail)
    yield from find_client_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    yield from _validate_conditions(hook.get("matchConditions") or (), f"{path}.matchConditions")


def _validate_choice(
    hook: Body, name: str, choices: Sequence[str], path: str
) -> Iterator[FieldError]:
    """Yield the error of a field that is set to none of its choices."""
    if hook.get(name) and hook[name] not in choices:
        yield build_not_supported_error(f"{path}.{name}", hook[name], choices)


def _validate_name(name: str, path: str) -> Iterator[FieldError]:
    """Yield the error of a webhook's name that is no domain of at least three segments."""
    errors = find_subdomain_errors(name) if name else []
    if not name:
        yield build_required_error(path)
    elif errors:
        yield build_invalid_error(path, name, ",".join(errors))
    elif name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        yield build_invalid_error(path, name, detail)


def _validate_rule(rule: Body, path: str) -> Iterator[FieldError]:
    """Yield the errors in the operations and resources of a rule."""
    for name in ("operations", "apiGroups", "apiVersions", "resources"):
        if not rule.get(name):
            yield build_required_error(f"{path}.{name}")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield build_not_supported_error(f"{path}.operations[{index}]", operation, _OPERATIONS)
    if rule.get("scope") and rule["scope"] not in _SCOPES:
        yield build_not_supported_error(f"{path}.scope", rule["scope"], _SCOPES)


def _validate_conditions(conditions: Sequence[Body], path: str) -> Iterator[FieldError]:
    """Yield the errors of matchConditions."""
    if len(conditions) > _MOST_CONDITIONS:
        yield build_too_many_error(path, len(conditions), _MOST_CONDITIONS)
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        name, expression = condition.get("name") or "", condition.get("expression") or ""
        if not expression.strip():
            yield build_required_error(f"{path}[{index}].expression")
        elif failure := compile_condition(expression).failure:
            yield build_invalid_error(f"{path}[{index}].expression", expression, failure)
        if not name:
            yield build_required_error(f"{path}[{index}].name")
            continue
        for error in find_qualified_name_errors(name):
            yield build_invalid_error(f"{path}[{index}].name", name, error)
        if name in names:
            yield build_duplicate_error(f"{path}[{index}].name", name)
        names.add(name)


def _validate_selector(selector: Body, path: str) -> Iterator[FieldError]:
    """Yield the errors of a selector at a path."""
    for key, value in (selector.get("matchLabels") or {}).items():
        for error in find_qualified_name_errors(key):
            yield build_invalid_error(f"{path}.matchLabels", key, error)
        for error in find_label_value_errors(value):
            yield build_invalid_error(f"{path}.matchLabels", value, error)
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        yield from _validate_expression(requirement, f"{path}.matchExpressions[{index}]")


def _validate_expression(requirement: Body, path: str) -> Iterator[FieldError]:
    """Yield the errors of one match expression of a label selector."""
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    if operator in {"In", "NotIn"}:
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield build_required_error(f"{path}.values", detail)
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield build_forbidden_error(f"{path}.values", detail)
    else:
        yield build_invalid_error(f"{path}.operator", operator, "not a valid selector operator")
    for error in find_qualified_name_errors(requirement.get("key") or ""):
        yield build_invalid_error(f"{path}.key", requirement.get("key") or "", error)
    for index, value in enumerate(values):
        for error in find_label_value_errors(value):
            yield build_invalid_error(f"{path}.values[{index}]", value, error)
