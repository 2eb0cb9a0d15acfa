"""Checks of services that need no other service: ports, and what each type allows."""

import json
import re
from collections.abc import Iterator
from typing import Any

from envtest.schema.errors import (
    FieldError,
    Verbatim,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from envtest.schema.names import label_errors, subdomain_errors
from envtest.server.objectmeta import Body

NODE_PORTS = range(30000, 32768)
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_AFFINITIES = ("ClientIP", "None")
_KUBELET = 10250
_EXTERNAL_NAME = "may not be set for ExternalName services"


def type_problems(spec: Body) -> Iterator[FieldError]:
    """Yield what does not go with the type of a service."""
    kind, headless = spec.get("type"), spec.get("clusterIP") == "None"
    if not spec.get("ports") and not headless and kind != "ExternalName":
        yield required("spec.ports")
    if kind == "LoadBalancer":
        for at, port in enumerate(spec.get("ports", ())):
            if port.get("port") == _KUBELET:
                text = f"may not expose port {_KUBELET} externally since it is used by kubelet"
                yield invalid(f"spec.ports[{at}]", _KUBELET, text)
    if kind in {"LoadBalancer", "NodePort"} and headless:
        text = f"may not be set to 'None' for {kind} services"
        yield invalid("spec.clusterIPs[0]", "None", text)
    if kind == "ExternalName":
        yield from _name_problems(spec)


def _name_problems(spec: Body) -> Iterator[FieldError]:
    """Yield what is wrong with a service that stands for a name elsewhere."""
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield forbidden(f"spec.{name}", _EXTERNAL_NAME)
    target = spec.get("externalName", "").removesuffix(".")
    if not target:
        yield required("spec.externalName")
    for error in subdomain_errors(target) if target else ():
        yield invalid("spec.externalName", spec["externalName"], error)


def port_problems(spec: Body) -> Iterator[FieldError]:
    """Yield what is wrong with each port, and with several of them together."""
    ports = spec.get("ports", ())
    names: set[str] = set()
    for at, port in enumerate(ports):
        path = f"spec.ports[{at}]"
        name = port.get("name", "")
        if len(ports) > 1 and not name:
            yield required(f"{path}.name")
        for error in label_errors(name) if name else ():
            yield invalid(f"{path}.name", name, error)
        if name in names:
            yield duplicate(f"{path}.name", name)
        names |= {name} - {""}
        yield from _number_problems(port.get("port", 0), f"{path}.port")
        if port.get("protocol") not in _PROTOCOLS:
            yield not_supported(f"{path}.protocol", port.get("protocol", ""), _PROTOCOLS)
        yield from _target_problems(port.get("targetPort", 0), f"{path}.targetPort")
    if spec.get("sessionAffinity") not in _AFFINITIES:
        given = spec.get("sessionAffinity", "")
        yield not_supported("spec.sessionAffinity", given, _AFFINITIES)
    if spec.get("type") == "ClusterIP":
        for at, port in enumerate(ports):
            if port.get("nodePort"):
                text = "may not be used when `type` is 'ClusterIP'"
                yield forbidden(f"spec.ports[{at}].nodePort", text)
    yield from _twice(ports)


def _twice(ports: Any) -> Iterator[FieldError]:
    """Yield ports that have number and protocol in common."""
    seen = set()
    for at, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in seen:
            # Go prints its own structure, with fields that say nothing here.
            shown = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1]}
            text = json.dumps({**shown, "TargetPort": 0, "NodePort": 0}, separators=(",", ":"))
            yield duplicate(f"spec.ports[{at}]", Verbatim(text))
        seen.add(key)


def _number_problems(value: int, path: str) -> Iterator[FieldError]:
    if not 1 <= value <= 65535:
        yield invalid(path, value, "must be between 1 and 65535, inclusive")


def _target_problems(value: int | str, path: str) -> Iterator[FieldError]:
    if isinstance(value, int):
        yield from _number_problems(value, path)
        return
    if len(value) > 15:
        yield invalid(path, value, "must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", value):
        text = (
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
            if value
            else "must contain at least one letter (a-z)"
        )
        yield invalid(path, value, text)
        return
    if not re.search("[a-z]", value):
        yield invalid(path, value, "must contain at least one letter (a-z)")
    if "--" in value:
        yield invalid(path, value, "must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        yield invalid(path, value, "must not begin or end with a hyphen")


def node_port_problems(spec: Body, before: Body, taken: set[int]) -> Iterator[FieldError]:
    """Yield node ports that the client chose and cannot have.

    Args:
        spec: of the service.
        before: of the service as it was; its ports are its own.
        taken: what other services hold.
    """
    own = {port.get("nodePort") for port in before.get("ports", ())}
    low, high = NODE_PORTS[0], NODE_PORTS[-1]
    for at, port in enumerate(spec.get("ports", ())):
        number, path = port.get("nodePort"), f"spec.ports[{at}].nodePort"
        if not number or number in own:
            continue
        if number not in NODE_PORTS:
            text = "provided port is not in the valid range. "
            text += f"The range of valid ports is {low}-{high}"
            yield invalid(path, number, text)
        elif number in taken:
            yield invalid(path, number, "provided port is already allocated")
