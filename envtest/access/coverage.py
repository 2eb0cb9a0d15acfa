"""Whether some rules grant all that others grant: what nobody may hand out without holding it.

Follows Kubernetes' rule coverage: rules are broken down into single rights, each of which one rule
of the holder must cover alone. A right for every name is not covered by rights for each name.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from envtest.access.rbac import Rule
from envtest.schema.gotext import quote

_PARTS = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")
_TITLES = ("APIGroups", "Resources", "NonResourceURLs", "ResourceNames", "Verbs")


def missing(held: Sequence[Rule], granted: Iterable[Rule]) -> list[Rule]:
    """Return the single rights among `granted` that `held` does not cover."""
    return [
        right
        for rule in granted
        for right in _broken_down(rule)
        if not any(_covers(own, right) for own in held)
    ]


def described(rights: Iterable[Rule]) -> str:
    """Return rights as refusals list them: one line each, verbs of one resource together."""
    return "\n".join(sorted({_text(rule) for rule in _compact(rights)}))


def _broken_down(rule: Rule) -> Iterator[Rule]:
    verbs = rule.get("verbs") or ()
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in verbs:
                right = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames") or ()
                yield from ({**right, "resourceNames": [name]} for name in names)
                if not names:
                    yield right
    for path in rule.get("nonResourceURLs") or ():
        for verb in verbs:
            yield {"nonResourceURLs": [path], "verbs": [verb]}


def _covers(own: Rule, right: Rule) -> bool:
    names = own.get("resourceNames")
    wanted = right.get("resourceNames") or ()
    return (
        _holds(own, right, "verbs")
        and _holds(own, right, "apiGroups")
        and all(_has_resource(own, one) for one in right.get("resources", ()))
        and all(_has_path(own, one) for one in right.get("nonResourceURLs", ()))
        and (not names or (bool(wanted) and set(wanted) <= set(names)))
    )


def _holds(own: Rule, right: Rule, part: str) -> bool:
    values = own.get(part) or ()
    return "*" in values or all(one in values for one in right.get(part, ()))


def _has_resource(own: Rule, wanted: str) -> bool:
    values = own.get("resources") or ()
    _, slash, subresource = wanted.partition("/")
    return "*" in values or wanted in values or (bool(slash) and f"*/{subresource}" in values)


def _has_path(own: Rule, wanted: str) -> bool:
    return any(
        one == wanted or (one.endswith("*") and wanted.startswith(one.rstrip("*")))
        for one in own.get("nonResourceURLs") or ()
    )


def _compact(rights: Iterable[Rule]) -> list[Mapping[str, Any]]:
    """Join the verbs of rights that are the same otherwise; paths stay apart."""
    joined: dict[tuple[str, ...], dict[str, Any]] = {}
    apart: list[Mapping[str, Any]] = []
    for right in rights:
        if "nonResourceURLs" in right:
            apart.append(right)
            continue
        key = (*right["apiGroups"], *right["resources"], *right.get("resourceNames", ()))
        known = joined.setdefault(key, {**right, "verbs": []})
        known["verbs"] += [verb for verb in right["verbs"] if verb not in known["verbs"]]
    return [*joined.values(), *apart]


def _text(rule: Mapping[str, Any]) -> str:
    shown = [
        f"{title}:[{' '.join(quoted(rule[part]))}]"
        for part, title in zip(_PARTS, _TITLES, strict=True)
        if rule.get(part)
    ]
    return "{" + ", ".join(shown) + "}"


def quoted(values: Iterable[str]) -> list[str]:
    """Return texts in quotation marks, as Go's %q writes them."""
    return [quote(value) for value in values]
