"""Configurations of admission webhooks: defaults and checks; who asks is `envtest.admission`.

Texts and order follow the validation of admissionregistration.k8s.io.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from typing_extensions import override

from envtest.builtins.labelselectors import selector_problems
from envtest.builtins.rules import BuiltinRules
from envtest.schema.cel import compile_condition
from envtest.schema.errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from envtest.schema.names import (
    label_1035_errors,
    qualified_name_errors,
    subdomain_errors,
)
from envtest.schema.webhookclients import client_errors
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
    """ValidatingWebhookConfiguration and MutatingWebhookConfiguration."""

    @override
    def default(self, body: Body) -> None:
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
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        return list(_problems(body.get("webhooks") or ()))


def _problems(hooks: Sequence[Body]) -> Iterator[FieldError]:
    names: set[str] = set()
    for at, hook in enumerate(hooks):
        path = f"webhooks[{at}]"
        yield from _hook_problems(hook, path)
        yield from _review_problems(hook.get("admissionReviewVersions") or [], path)
        name = hook.get("name") or ""
        if name and name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)


def _hook_problems(hook: Body, path: str) -> Iterator[FieldError]:
    yield from _name_problems(hook.get("name") or "", f"{path}.name")
    for at, rule in enumerate(hook.get("rules") or ()):
        yield from rule_problems(rule, f"{path}.rules[{at}]")
    for name, choices in _CHOICES.items():
        if name == "sideEffects" and not hook.get(name):
            yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
        else:
            yield from _choice_problems(hook, name, choices, path)
    seconds = hook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= _LONGEST_SECONDS:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", seconds, text)
    for name in ("namespaceSelector", "objectSelector"):
        yield from selector_problems(hook.get(name) or {}, f"{path}.{name}")
    yield from _choice_problems(hook, "reinvocationPolicy", ("IfNeeded", "Never"), path)
    yield from client_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    yield from condition_problems(hook.get("matchConditions") or (), f"{path}.matchConditions")


def _choice_problems(
    hook: Body, name: str, choices: Sequence[str], path: str
) -> Iterator[FieldError]:
    if hook.get(name) and hook[name] not in choices:
        yield not_supported(f"{path}.{name}", hook[name], choices)


def _name_problems(name: str, path: str) -> Iterator[FieldError]:
    errors = subdomain_errors(name) if name else []
    if not name:
        yield required(path)
    elif errors:
        yield invalid(path, name, ",".join(errors))
    elif name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        yield invalid(path, name, text)


def _review_problems(versions: list[str], path: str) -> Iterator[FieldError]:
    path = f"{path}.admissionReviewVersions"
    if not versions:
        yield required(path, f"must specify one of {_REVIEWS}")
        return
    for at, version in enumerate(versions):
        if version in versions[:at]:
            yield invalid(f"{path}[{at}]", version, "duplicate version")
            continue
        for error in label_1035_errors(version):
            yield invalid(f"{path}[{at}]", version, error)
    if not {"v1", "v1beta1"} & set(versions):
        yield invalid(path, versions, f"must include at least one of {_REVIEWS}")


def rule_problems(rule: Body, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the operations and resources of a rule."""
    operations = rule.get("operations") or []
    yield from _list_problems(operations, f"{path}.operations", "operations")
    for at, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{at}]", operation, _OPERATIONS)
    yield from _list_problems(rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    yield from _list_problems(versions, f"{path}.apiVersions", "API versions")
    for at, version in enumerate(versions):
        if not version:
            yield required(f"{path}.apiVersions[{at}]")
    yield from _resource_problems(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") and rule["scope"] not in _SCOPES:
        yield not_supported(f"{path}.scope", rule["scope"], _SCOPES)


def _list_problems(values: list[str], path: str, called: str) -> Iterator[FieldError]:
    if not values:
        yield required(path)
    elif len(values) > 1 and "*" in values:
        yield invalid(path, values, f"if '*' is present, must not specify other {called}")


def _resource_problems(resources: list[str], path: str) -> Iterator[FieldError]:
    """Refuse what another entry covers already."""
    if not resources:
        yield required(path)
    whole: set[str] = set()
    everywhere: set[str] = set()
    for at, one in enumerate(resources):
        main, slash, sub = one.partition("/")
        if not one:
            yield required(f"{path}[{at}]")
        if not slash:
            continue
        for covering in (f"{main}/*" * (main in whole), f"*/{sub}" * (sub in everywhere)):
            if covering:
                text = f"if '{covering}' is present, must not specify {one}"
                yield invalid(f"{path}[{at}]", one, text)
        whole |= {main} if sub == "*" else set()
        everywhere |= {sub} if main == "*" else set()
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    bare = [one for one in resources if one and "/" not in one]
    if "*" in bare and bare[-1] != "*":
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, resources, text)


def condition_problems(conditions: Sequence[Body], path: str) -> Iterator[FieldError]:
    """Yield what is wrong with matchConditions."""
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(path, len(conditions), _MOST_CONDITIONS)
    names: set[str] = set()
    for at, one in enumerate(conditions):
        name, expression = one.get("name") or "", one.get("expression") or ""
        if not expression.strip():
            yield required(f"{path}[{at}].expression")
        elif failure := compile_condition(expression).failure:
            yield invalid(f"{path}[{at}].expression", expression, failure)
        if not name:
            yield required(f"{path}[{at}].name")
            continue
        for error in qualified_name_errors(name):
            yield invalid(f"{path}[{at}].name", name, error)
        if name in names:
            yield duplicate(f"{path}[{at}].name", name)
        names.add(name)
