"""Devices and claims of them: defaults and checks of resource.k8s.io.

Texts and order follow its validation (k8s.io/kubernetes/pkg/apis/resource/validation), for what a
claim, a class and a slice must have. Nobody allocates here; CEL selectors are not compiled.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from typing_extensions import override

from envtest.builtins.shaped import ShapedRules, changed
from envtest.schema.errors import (
    OMITTED,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from envtest.schema.names import label_errors, subdomain_errors
from envtest.server.objectmeta import Body

_MODES: Final = ("All", "ExactCount")
_MOST_REQUESTS: Final = 32
_MOST_ALTERNATIVES: Final = 8
_MOST_RESERVED: Final = 256
_MOST_DEVICES: Final = 128
_SELECTING: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


class DeviceClassRules(ShapedRules):
    """Classes of devices: which there are, and how they are configured."""

    counting: ClassVar[bool] = True

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec = body["spec"]
        yield from _selector_problems(spec.get("selectors") or (), "spec.selectors")
        for at, one in enumerate(spec.get("config") or ()):
            yield from _config_problems(one, f"spec.config[{at}]")


class ClaimRules(ShapedRules):
    """Claims, whose specs never change, and what has become of them."""

    @override
    def default(self, body: Body) -> None:
        super().default(body)
        _default_requests(body["spec"])

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        yield from _claim_problems(body["spec"]["devices"], "spec.devices")
        yield from changed(body, old, "spec")

    @override
    def status_problems(self, body: Body) -> Iterator[FieldError]:
        status = body.get("status") or {}
        reserved = status.get("reservedFor") or ()
        path = "status.reservedFor"
        if len(reserved) > _MOST_RESERVED:
            yield too_many(path, len(reserved), _MOST_RESERVED)
        for at, one in enumerate(reserved):
            for name in ("resource", "name", "uid"):
                if not one.get(name):
                    yield required(f"{path}[{at}].{name}")
        if reserved and "allocation" not in status:
            yield forbidden(path, "may not be specified when `allocated` is not set")


class ClaimTemplateRules(ShapedRules):
    """Templates of claims; they never change."""

    @override
    def default(self, body: Body) -> None:
        super().default(body)
        _default_requests(body["spec"]["spec"])

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        yield from _claim_problems(body["spec"]["spec"]["devices"], "spec.spec.devices")
        yield from changed(body, old, "spec")


class SliceRules(ShapedRules):
    """Which devices a driver has to offer, and where."""

    counting: ClassVar[bool] = True
    fields: ClassVar[frozenset[str]] = frozenset({"spec.driver", "spec.nodeName"})

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec = body["spec"]
        yield from _driver_problems(spec["driver"], "spec.driver")
        pool = spec["pool"]
        yield from _pool_problems(pool)
        given = [name for name in _SELECTING if spec.get(name)]
        if not given:
            text = (
                "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` "
                "is required"
            )
            yield required("spec", text)
        elif len(given) > 1:
            text = (
                "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` "
                "is required, but multiple fields are set"
            )
            yield invalid("spec", "{" + ", ".join(given) + "}", text)
        devices = spec.get("devices") or ()
        if len(devices) > _MOST_DEVICES:
            yield too_many("spec.devices", len(devices), _MOST_DEVICES)
        yield from _distinct(devices, "spec.devices")
        if old is not None:
            for name in ("driver", "nodeName"):
                yield from changed(body, old, f"spec.{name}")
            if pool["name"] != old["spec"]["pool"]["name"]:
                yield invalid("spec.pool.name", pool["name"], "field is immutable")


def _default_requests(spec: Body) -> None:
    for request in spec["devices"]["requests"] or ():
        for one in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if one is None:
                continue
            one["allocationMode"] = one.get("allocationMode") or "ExactCount"
            if one["allocationMode"] == "ExactCount" and not one.get("count"):
                one["count"] = 1
            one.setdefault("deviceClassName", "")


def _claim_problems(devices: Body, path: str) -> Iterator[FieldError]:
    requests = devices["requests"] or ()
    if len(requests) > _MOST_REQUESTS:
        yield too_many(f"{path}.requests", len(requests), _MOST_REQUESTS)
    for at, request in enumerate(requests):
        yield from _request_problems(request, f"{path}.requests[{at}]")
    yield from _distinct(requests, f"{path}.requests")
    names = set(_names(requests))
    for part in ("constraints", "config"):
        for at, one in enumerate(devices.get(part) or ()):
            for where, name in enumerate(one.get("requests") or ()):
                if name not in names:
                    text = (
                        "must be the name of a request in the claim or the name of a request "
                        "and a subrequest separated by '/'"
                    )
                    yield invalid(f"{path}.{part}[{at}].requests[{where}]", name, text)
    for at, one in enumerate(devices.get("config") or ()):
        yield from _config_problems(one, f"{path}.config[{at}]")


def _names(requests: Sequence[Body]) -> Iterator[str]:
    """Yield how requests and their alternatives may be called."""
    for request in requests:
        name = request.get("name", "")
        yield name
        yield from (f"{name}/{one.get('name', '')}" for one in request.get("firstAvailable", ()))


def _request_problems(request: Body, path: str) -> Iterator[FieldError]:
    yield from _name_problems(request.get("name", ""), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
    text = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is not None and alternatives:
        yield invalid(path, None, f"{text}, but multiple fields are set")
    elif exactly is not None:
        yield from _device_problems(exactly, f"{path}.exactly")
    elif alternatives:
        if len(alternatives) > _MOST_ALTERNATIVES:
            yield too_many(f"{path}.firstAvailable", len(alternatives), _MOST_ALTERNATIVES)
        for at, one in enumerate(alternatives):
            yield from _name_problems(one.get("name", ""), f"{path}.firstAvailable[{at}].name")
            yield from _device_problems(one, f"{path}.firstAvailable[{at}]")
        yield from _distinct(alternatives, f"{path}.firstAvailable")
    else:
        yield required(path, text)


def _device_problems(wanted: Body, path: str) -> Iterator[FieldError]:
    name = wanted["deviceClassName"]
    if not name:
        yield required(f"{path}.deviceClassName")
    for error in subdomain_errors(name) if name else ():
        yield invalid(f"{path}.deviceClassName", name, error)
    yield from _selector_problems(wanted.get("selectors") or (), f"{path}.selectors")
    mode, count = wanted["allocationMode"], wanted.get("count", 0)
    if mode not in _MODES:
        yield not_supported(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        text = f"must not be specified when allocationMode is '{mode}'"
        yield invalid(f"{path}.count", count, text)
    elif mode == "ExactCount" and count <= 0:
        yield invalid(f"{path}.count", count, "must be greater than zero")


def _selector_problems(selectors: Sequence[Body], path: str) -> Iterator[FieldError]:
    if len(selectors) > _MOST_REQUESTS:
        yield too_many(path, len(selectors), _MOST_REQUESTS)
    for at, one in enumerate(selectors):
        if "cel" not in one:
            yield required(f"{path}[{at}].cel")


def _config_problems(config: Body, path: str) -> Iterator[FieldError]:
    opaque = config.get("opaque")
    if opaque is None:
        yield required(f"{path}.opaque")
        return
    yield from _driver_problems(opaque.get("driver", ""), f"{path}.opaque.driver")
    parameters: Any = opaque.get("parameters")
    if parameters is None:
        yield required(f"{path}.opaque.parameters")
    elif not isinstance(parameters, dict):
        text = "parameters must be a valid JSON object"
        yield FieldError("Invalid", f"{path}.opaque.parameters", OMITTED, text)


def _driver_problems(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    for error in subdomain_errors(name.lower()) if name else ():
        yield invalid(path, name, error)


def _pool_problems(pool: Body) -> Iterator[FieldError]:
    name = pool["name"]
    if not name:
        yield required("spec.pool.name")
    for part in name.split("/") if name else ():
        for error in subdomain_errors(part):
            yield invalid("spec.pool.name", part, error)
    if pool["resourceSliceCount"] <= 0:
        count = pool["resourceSliceCount"]
        yield invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if pool["generation"] < 0:
        text = "must be greater than or equal to zero"
        yield invalid("spec.pool.generation", pool["generation"], text)


def _name_problems(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    for error in label_errors(name) if name else ():
        yield invalid(path, name, error)


def _distinct(entries: Sequence[Body], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for at, one in enumerate(entries):
        name = one.get("name", "")
        if name in names:
            yield duplicate(f"{path}[{at}]", name)
        names.add(name)
