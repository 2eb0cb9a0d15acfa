"""Which webhooks a write concerns: rules and selectors of their configurations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envtest.server.api import Api
from envtest.server.call import Call
from envtest.server.selectors import LabelSelector, Requirement

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_OWN_GROUP = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True)
class Write:
    """One write to ask about; `new` is None for a DELETE, `old` for a CREATE."""

    call: Call
    operation: str
    new: dict[str, Any] | None
    old: dict[str, Any] | None

    @property
    def namespace(self) -> str:
        """Return the namespace that is written to."""
        return self.call.info.namespace if self.call.resource.namespaced else ""


def concerned(api: Api, plural: str, write: Write) -> Iterator[dict[str, Any]]:
    """Yield the webhooks to ask, by the name of their configuration, then as they are listed."""
    found = api.registry.find(_OWN_GROUP, "v1", plural)
    if found is None or write.call.resource.group == _OWN_GROUP:
        return
    table = api.table(found)
    for key in list(table.scan()):
        stored = table.get(key)
        if stored is None:
            continue
        for hook in found.load(stored).get("webhooks") or ():
            if _matches(api, hook, write):
                yield hook


def _matches(api: Api, hook: Mapping[str, Any], write: Write) -> bool:
    return (
        any(_rule_matches(rule, write) for rule in hook.get("rules") or ())
        and _namespace_matches(api, hook.get("namespaceSelector") or {}, write)
        and _object_matches(hook.get("objectSelector") or {}, write)
    )


def _rule_matches(rule: Mapping[str, Any], write: Write) -> bool:
    resource, info = write.call.resource, write.call.info
    scope = rule.get("scope") or "*"
    return (
        _among(rule.get("operations"), write.operation)
        and _among(rule.get("apiGroups"), resource.group)
        and _among(rule.get("apiVersions"), resource.version)
        and any(
            _resource_matches(one, resource.plural, info.subresource)
            for one in rule.get("resources") or ()
        )
        and scope in {"*", "Namespaced" if resource.namespaced else "Cluster"}
    )


def _among(values: list[str] | None, wanted: str) -> bool:
    return any(one in {"*", wanted} for one in values or ())


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    main, _, sub = pattern.partition("/")
    return main in {"*", plural} and sub in (subresource, "*")


def _namespace_matches(api: Api, selector: Mapping[str, Any], write: Write) -> bool:
    if not selector:
        return True
    resource = write.call.resource
    if (resource.group, resource.plural) == ("", "namespaces"):
        return label_selector(selector).matches(_labels(write.new or write.old))
    if not write.namespace:
        return True
    home = api.registry.find("", "v1", "namespaces")
    stored = api.table(home).get(write.namespace) if home else None
    body = home.load(stored) if home and stored else None
    return label_selector(selector).matches(_labels(body))


def _object_matches(selector: Mapping[str, Any], write: Write) -> bool:
    if not selector:
        return True
    chosen = label_selector(selector)
    bodies = [body for body in (write.new, write.old) if body is not None]
    return any(chosen.matches(_labels(body)) for body in bodies)


def _labels(body: Mapping[str, Any] | None) -> Mapping[str, str]:
    meta = (body or {}).get("metadata") or {}
    labels: Mapping[str, str] = meta.get("labels") or {}
    return labels


def label_selector(selector: Mapping[str, Any]) -> LabelSelector:
    """Return the selector that a LabelSelector object stands for."""
    exact = [
        Requirement(key, "=", frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    others = [
        Requirement(one["key"], _OPERATORS[one["operator"]], frozenset(one.get("values") or ()))
        for one in selector.get("matchExpressions") or ()
    ]
    return LabelSelector((*exact, *others))
