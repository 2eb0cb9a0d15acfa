"""Nodes: taints are distinct, and what addresses their pods get is told once.

As ValidateNode and ValidateNodeUpdate do (k8s.io/kubernetes/pkg/apis/core/validation).
"""

import json
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.schema.errors import FieldError, Verbatim, forbidden, invalid, not_supported, required
from envtest.schema.names import label_value_errors, qualified_name_errors
from envtest.server.objectmeta import Body

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_FROM_NOTHING = 'node updates may not change {} except from "" to valid'


class NodeRules(BuiltinRules):
    """Nodes; their status is not judged."""

    @override
    def default(self, body: Body) -> None:
        # The old field stands for the first entry of the new one, and wins where they differ.
        spec = body.setdefault("spec", {})
        first, all_of_them = spec.get("podCIDR"), spec.get("podCIDRs")
        if first and first != (all_of_them or [""])[0]:
            spec["podCIDRs"] = [first]
        elif all_of_them:
            spec["podCIDR"] = all_of_them[0]

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        spec = body.get("spec", {})
        found = [*_taint_problems(spec), *_range_problems(spec.get("podCIDRs") or [])]
        before = (old or {}).get("spec", {})
        for name, told in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if before.get(name) and before[name] != spec.get(name):
                found.append(forbidden(f"spec.{name}", _FROM_NOTHING.format(told)))
        return found


def _taint_problems(spec: Body) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for at, taint in enumerate(spec.get("taints") or ()):
        path = f"spec.taints[{at}]"
        key, value, effect = (taint.get(name, "") for name in ("key", "value", "effect"))
        for error in qualified_name_errors(key):
            yield invalid(f"{path}.key", key, error)
        if errors := label_value_errors(value):
            yield invalid(f"{path}.value", value, ";".join(errors))
        if not effect:
            yield required(f"{path}.effect")
        elif effect not in _EFFECTS:
            yield not_supported(f"{path}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            yield _twice(taint, path)
        seen.add((key, effect))


def _twice(taint: dict[str, Any], path: str) -> FieldError:
    """Return the refusal of a taint; Go prints its own structure."""
    shown = {name.capitalize(): taint.get(name, "") for name in ("key", "value", "effect")}
    text = json.dumps({**shown, "TimeAdded": taint.get("timeAdded")}, separators=(",", ":"))
    detail = "taints must be unique by key and effect pair"
    return FieldError("Duplicate", path, Verbatim(text), detail)


def _range_problems(ranges: list[str]) -> Iterator[FieldError]:
    families: list[type[IPv4Network | IPv6Network]] = []
    for at, text in enumerate(ranges):
        try:
            families.append(type(ip_network(text, strict=False)))
        except ValueError:
            yield invalid(f"spec.podCIDRs[{at}]", text, _CIDR)
    if len(set(families)) < len(families):
        text = "may specify no more than one CIDR for each IP family"
        yield invalid("spec.podCIDRs", ranges, text)
