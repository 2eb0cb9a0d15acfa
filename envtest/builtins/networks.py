"""Ranges and addresses of services, and classes of ingresses: checks of networking.k8s.io.

Texts and order follow its validation (k8s.io/kubernetes/pkg/apis/networking/validation).
"""

import re
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address, ip_network
from typing import ClassVar, Final

from typing_extensions import override

from envtest.builtins.shaped import ShapedRules, changed
from envtest.schema.errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from envtest.schema.names import label_errors, subdomain_errors
from envtest.server.objectmeta import Body, path_segment_errors

_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_RANGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_TWO_OF_A_FAMILY: Final = (
    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
)
_LONGEST_CONTROLLER: Final = 250
_SCOPES: Final = ("Cluster", "Namespace")
_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_MOST_RANGES: Final = 2


class AddressRules(ShapedRules):
    """Addresses of services, by their names, and who has them."""

    judged_whole: ClassVar[bool] = False

    @override
    def __init__(self, group: str, version: str, kind: str, *, has_status: bool) -> None:
        super().__init__(group, version, kind, has_status=has_status)
        self.name_rule = _address_errors

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        parent = body["spec"].get("parentRef")
        if old is not None:
            given = parent or {}
            titles = ("Group", "Resource", "Namespace", "Name")
            shown = {title: given.get(title.lower(), "") for title in titles}
            yield from changed(body, old, "spec.parentRef", shown)
            return
        if parent is None:
            yield required("spec.parentRef")
            return
        for error in subdomain_errors(parent["group"]) if parent.get("group") else ():
            yield invalid("spec.parentRef.group", parent["group"], error)
        for name in ("resource", "name"):
            if not parent.get(name):
                yield required(f"spec.parentRef.{name}")
        for name in ("resource", "name", "namespace"):
            for error in path_segment_errors(parent[name]) if parent.get(name) else ():
                yield invalid(f"spec.parentRef.{name}", parent[name], error)


class RangeRules(ShapedRules):
    """Ranges of services' addresses; what is given out stays within the server's own one here."""

    judged_whole: ClassVar[bool] = False
    status_with_labels: ClassVar[bool] = True

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        if old is not None:
            yield from changed(body, old, "spec.cidrs")
            return
        ranges = body["spec"].get("cidrs") or []
        if not ranges:
            yield required("spec.cidrs", "at least one CIDR required")
        elif len(ranges) > _MOST_RANGES:
            yield invalid("spec.cidrs", {"CIDRs": ranges}, "may only hold up to 2 values")
        elif len(ranges) == _MOST_RANGES and len({_family(one) for one in ranges} - {0}) < 2:
            yield invalid("spec.cidrs", {"CIDRs": ranges}, _TWO_OF_A_FAMILY)
        else:
            for at, text in enumerate(ranges):
                for error in _range_errors(text):
                    yield invalid(f"spec.cidrs[{at}]", text, error)


class IngressClassRules(ShapedRules):
    """Classes of ingresses: who serves them."""

    counting: ClassVar[bool] = True

    @override
    def default(self, body: Body) -> None:
        super().default(body)
        parameters = body["spec"].get("parameters")
        if parameters is not None:
            parameters.setdefault("kind", "")
            parameters.setdefault("name", "")
            parameters.setdefault("scope", "Cluster")

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec = body["spec"]
        controller = spec.get("controller", "")
        if old is not None:
            if controller != old["spec"].get("controller", ""):
                yield invalid("spec.controller", controller, "field is immutable")
        else:
            if len(controller) > _LONGEST_CONTROLLER:
                yield too_long("spec.controller", _LONGEST_CONTROLLER)
            yield from _controller_problems(controller)
        if "parameters" in spec:
            yield from _parameter_problems(spec["parameters"])


def _address_errors(name: str) -> list[str]:
    """Return what keeps a name from being an address in its canonical form."""
    try:
        found = ip_address(name)
    except ValueError:
        digits = re.fullmatch(r"\d{1,9}(\.\d{1,9}){3}", name)
        if digits and all(int(part) < 256 for part in name.split(".")):
            return ["must not have leading 0s"]
        return [_ADDRESS]
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return [] if str(found) == name else [f'must be in canonical form ("{found}")']


def _range_errors(text: str) -> Iterator[str]:
    if not _family(text):
        yield _RANGE
        return
    found = ip_network(text, strict=False)
    if str(found.network_address) != text.partition("/")[0]:
        try:
            ip_network(text)
        except ValueError:
            yield "must not have bits set beyond the prefix length"
            return
    if str(found) != text:
        yield f'must be in canonical form ("{found}")'


def _family(text: str) -> int:
    """Return 4 or 6 for a range of addresses; 0 if it is none."""
    try:
        return ip_network(text, strict=False).version if "/" in text else 0
    except ValueError:
        return 0


def _controller_problems(name: str) -> Iterator[FieldError]:
    path = "spec.controller"
    host, slash, rest = name.partition("/")
    if not name:
        yield required(path)
        return
    if not (host and slash and rest):
        yield invalid(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    for error in subdomain_errors(host):
        yield invalid(path, host, error)
    if not re.fullmatch(_PATH, rest):
        yield invalid(path, rest, f"Invalid path (regex used for validation is '{_PATH}')")


def _parameter_problems(given: Body) -> Iterator[FieldError]:
    path = "spec.parameters"
    for error in subdomain_errors(given["apiGroup"]) if given.get("apiGroup") else ():
        yield invalid(f"{path}.apiGroup", given["apiGroup"], error)
    for name, called in (("kind", "kind"), ("name", "name")):
        if not given[name]:
            yield required(f"{path}.{name}", f"{called} is required")
        for error in path_segment_errors(given[name]) if given[name] else ():
            yield invalid(f"{path}.{name}", given[name], error)
    scope, namespace = given["scope"], given.get("namespace")
    if scope not in _SCOPES:
        yield not_supported(f"{path}.scope", scope, _SCOPES)
    elif scope == "Namespace":
        if namespace is None:
            yield required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            for error in label_errors(namespace):
                yield invalid(f"{path}.namespace", namespace, error)
    elif namespace is not None:
        yield forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
