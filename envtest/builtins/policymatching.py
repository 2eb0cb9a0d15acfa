"""What admission policies are about: the requests that match, and where parameters come from.

Texts and order follow the validation of admissionregistration.k8s.io.
"""

from collections.abc import Iterator
from typing import Final

from envtest.builtins.labelselectors import selector_problems
from envtest.builtins.webhooks import rule_problems
from envtest.schema.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from envtest.schema.names import label_1035_errors, subdomain_errors
from envtest.server.objectmeta import Body, path_segment_errors

_MATCHES: Final = ("Equivalent", "Exact")


def default_match(match: Body | None) -> None:
    """Fill in what a client may leave out of what a policy is about."""
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    for name in ("namespaceSelector", "objectSelector"):
        match.setdefault(name, {})
    for name in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(name) or ():
            rule.setdefault("scope", "*")


def kind_problems(given: Body, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the kind of a policy's parameters."""
    version, kind = given.get("apiVersion", ""), given.get("kind", "")
    at = f"{path}.apiVersion"
    if not version:
        yield required(at)
    elif version.count("/") > 1:
        yield invalid(at, version, f"unexpected GroupVersion string: {version}")
    else:
        group, _, bare = version.rpartition("/")
        errors = subdomain_errors(group) if group else []
        if errors:
            yield invalid(at, group, ",".join(errors))
        if not bare:
            yield invalid(at, version, "version must be specified")
        elif errors := label_1035_errors(bare):
            yield invalid(at, bare, ",".join(errors))
    if not kind:
        yield required(f"{path}.kind")
    elif errors := label_1035_errors(kind.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(errors)}"
        yield invalid(f"{path}.kind", kind, text)


def match_problems(match: Body, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with what a policy or a binding is about."""
    if match["matchPolicy"] not in _MATCHES:
        yield not_supported(f"{path}.matchPolicy", match["matchPolicy"], _MATCHES)
    for name in ("namespaceSelector", "objectSelector"):
        yield from selector_problems(match[name], f"{path}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for at, rule in enumerate(match.get(name) or ()):
            yield from _named_problems(rule, f"{path}.{name}[{at}]")


def _named_problems(rule: Body, path: str) -> Iterator[FieldError]:
    names = rule.get("resourceNames") or []
    for at, name in enumerate(names):
        for error in path_segment_errors(name):
            yield invalid(f"{path}.resourceNames[{at}]", name, error)
        if name in names[:at]:
            yield duplicate(f"{path}.resourceNames[{at}]", name)
    yield from rule_problems(rule, path)


def reference_problems(given: Body, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the parameters that a binding names."""
    name, selector = given.get("name", ""), given.get("selector")
    for error in path_segment_errors(name) if name else ():
        yield invalid(f"{path}.name", name, error)
    text = "name and selector are mutually exclusive"
    if name and selector is not None:
        yield forbidden(f"{path}.name", text)
    if selector is not None:
        yield from selector_problems(selector, f"{path}.selector")
        if name:
            yield forbidden(f"{path}.selector", text)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    action = given.get("parameterNotFoundAction", "")
    if not action:
        yield required(f"{path}.parameterNotFoundAction")
    elif action not in {"Allow", "Deny"}:
        yield not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))
