"""Drivers of storage, what they offer and attach: defaults and checks of storage.k8s.io.

Texts and order follow its validation (k8s.io/kubernetes/pkg/apis/storage/validation).
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from typing_extensions import override

from envtest.builtins.labelselectors import selector_problems
from envtest.builtins.shaped import ShapedRules, changed, update_forbidden
from envtest.schema.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from envtest.schema.names import qualified_name_errors, subdomain_errors
from envtest.server.objectmeta import Body

_MOST_PARAMETERS: Final = 512
_LARGEST: Final = 256 * 1024
_LONGEST_ERROR: Final = 1024
_LONGEST_NODE_ID: Final = 256
_LONGEST_DRIVER: Final = 63
_SHORTEST_TOKEN: Final = 600
_SHORTEST_PERIOD: Final = 10
_RECLAIM: Final = ("Delete", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_FS_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_MODES: Final = ("Persistent", "Ephemeral")
_DRIVER_DEFAULTS: Final[dict[str, Any]] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


class StorageClassRules(ShapedRules):
    """Classes of volumes: who makes them, and how."""

    judged_whole: ClassVar[bool] = False

    @override
    def default(self, body: Body) -> None:
        super().default(body)
        body.setdefault("reclaimPolicy", "Delete")
        body.setdefault("volumeBindingMode", "Immediate")

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        if old is not None:
            yield from update_forbidden(body, old, "parameters", "provisioner", "reclaimPolicy")
            yield from changed(body, old, "volumeBindingMode")
            return
        yield from _maker_problems(body["provisioner"], "provisioner")
        yield from _parameter_problems(body.get("parameters") or {}, may_be_empty=True)
        for name, choices in (("reclaimPolicy", _RECLAIM), ("volumeBindingMode", _BINDING)):
            if body[name] not in choices:
                yield not_supported(name, body[name], choices)


class AttributesClassRules(ShapedRules):
    """Classes of what a driver can change about a volume."""

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        yield from update_forbidden(body, old, "driverName", "parameters")
        yield from _maker_problems(body["driverName"], "driverName")
        yield from _parameter_problems(body.get("parameters") or {}, may_be_empty=False)


class DriverRules(ShapedRules):
    """Drivers; most of what they say of themselves is for the kubelet and the scheduler."""

    counting: ClassVar[bool] = True
    conditional: ClassVar[bool] = True
    judged_whole: ClassVar[bool] = False

    @override
    def default(self, body: Body) -> None:
        super().default(body)
        spec = body["spec"]
        for name, value in _DRIVER_DEFAULTS.items():
            spec.setdefault(name, value)
        spec["volumeLifecycleModes"] = spec.get("volumeLifecycleModes") or ["Persistent"]

    @override
    def prepare_create(self, body: Body) -> None:
        super().prepare_create(body)
        # Counted from the first change on.
        del body["metadata"]["generation"]

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec = body["spec"]
        if spec["fsGroupPolicy"] not in _FS_POLICIES:
            yield not_supported("spec.fsGroupPolicy", spec["fsGroupPolicy"], _FS_POLICIES)
        yield from _token_problems(spec.get("tokenRequests") or ())
        for mode in spec["volumeLifecycleModes"]:
            if mode not in _MODES:
                yield not_supported("spec.volumeLifecycleModes", mode, _MODES)
        period = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period is not None and period < _SHORTEST_PERIOD:
            path = "spec.nodeAllocatableUpdatePeriodSeconds"
            yield invalid(path, period, "must be greater than or equal to 10 seconds")
        if old is not None and spec["attachRequired"] != old["spec"]["attachRequired"]:
            # The real server misspells it, too.
            yield invalid("spec.attachedRequired", spec["attachRequired"], "field is immutable")
        yield from changed(body, old, "spec.volumeLifecycleModes")


class NodeDriversRules(ShapedRules):
    """Which drivers a node has."""

    conditional: ClassVar[bool] = True

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        names: set[str] = set()
        before = {one["name"]: one for one in old["spec"]["drivers"] or ()} if old else {}
        for at, driver in enumerate(body["spec"].get("drivers") or ()):
            path = f"spec.drivers[{at}]"
            name = driver.get("name", "")
            yield from _driver_name_problems(name, f"{path}.name")
            yield from _node_id_problems(driver.get("nodeID", ""), f"{path}.nodeID")
            count = (driver.get("allocatable") or {}).get("count", 0)
            if count < 0:
                text = "must be greater than or equal to 0"
                yield invalid(f"{path}.allocatable.count", count, text)
            if name in names:
                yield duplicate(f"{path}.name", name)
            names.add(name)
            yield from _topology_problems(driver.get("topologyKeys") or [], path)
            known = before.get(name)
            if known is not None and _fixed(known) != _fixed(driver):
                yield invalid("spec.drivers", _fixed(driver), "field is immutable")


class CapacityRules(ShapedRules):
    """How much room there is for volumes of a class."""

    conditional: ClassVar[bool] = True
    judged_whole: ClassVar[bool] = False

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        if old is not None:
            yield from changed(body, old, "nodeTopology")
            yield from changed(body, old, "storageClassName")
            return
        yield from selector_problems(body.get("nodeTopology") or {}, "nodeTopology")
        name = body["storageClassName"]
        for error in subdomain_errors(name):
            yield invalid("storageClassName", name, error)
        if str(body.get("capacity", "")).startswith("-"):
            yield invalid("capacity", body["capacity"], "must be greater than or equal to 0")


class AttachmentRules(ShapedRules):
    """Which volume shall be attached to which node; nothing can be changed but the status."""

    conditional: ClassVar[bool] = True

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec = body["spec"]
        if not spec["attacher"]:
            yield required("spec.attacher")
        yield from _source_problems(spec["source"])
        for error in subdomain_errors(spec["nodeName"]):
            yield invalid("spec.nodeName", spec["nodeName"], error)
        yield from self.status_problems(body)
        yield from changed(body, old, "spec", _as_go_prints(spec))
        if old is None:
            yield from _driver_name_problems(spec["attacher"], "spec.attacher")
            volume = spec["source"].get("persistentVolumeName")
            for error in subdomain_errors(volume) if volume is not None else ():
                yield invalid("spec.source.persistentVolumeName", volume, error)

    @override
    def status_problems(self, body: Body) -> Iterator[FieldError]:
        status = body.get("status") or {}
        if _size(status.get("attachmentMetadata") or {}) > _LARGEST:
            yield too_long("status.attachmentMetadata", _LARGEST)
        for name in ("attachError", "detachError"):
            error = status.get(name) or {}
            if len(error.get("message", "")) > _LONGEST_ERROR:
                yield too_long(f"status.{name}.message", _LARGEST)
            if error.get("errorCode", 0) < 0:
                text = "must be between 0 and 2147483647, inclusive"
                yield invalid(f"status.{name}.errorCode", error["errorCode"], text)


def _maker_problems(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
        return
    for error in qualified_name_errors(name.lower()):
        yield invalid(path, name.lower(), error)


def _parameter_problems(given: dict[str, str], *, may_be_empty: bool) -> Iterator[FieldError]:
    if len(given) > _MOST_PARAMETERS:
        yield too_long("parameters", _MOST_PARAMETERS)
        return
    if "" in given:
        yield invalid("parameters", "", "field can not be empty.")
    if _size(given) > _LARGEST:
        yield too_long("parameters", _LARGEST)
    if not given and not may_be_empty:
        yield required("parameters", "must contain at least one key/value pair")


def _size(given: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in given.items())


def _token_problems(requests: Sequence[Body]) -> Iterator[FieldError]:
    audiences: set[str] = set()
    for at, one in enumerate(requests):
        path, audience = f"spec.tokenRequests[{at}]", one.get("audience", "")
        if audience in audiences:
            yield duplicate(f"{path}.audience", audience)
            continue
        audiences.add(audience)
        seconds = one.get("expirationSeconds", _SHORTEST_TOKEN)
        if seconds < _SHORTEST_TOKEN:
            text = "may not specify a duration less than 10 minutes"
            yield invalid(f"{path}.expirationSeconds", seconds, text)
        if seconds > 1 << 32:
            text = "may not specify a duration larger than 2^32 seconds"
            yield invalid(f"{path}.expirationSeconds", seconds, text)


def _driver_name_problems(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    if len(name) > _LONGEST_DRIVER:
        yield too_long(path, _LONGEST_DRIVER)
    for error in subdomain_errors(name.lower()):
        yield invalid(path, name, error)


def _node_id_problems(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    if len(name) > _LONGEST_NODE_ID:
        yield invalid(path, name, f"must be {_LONGEST_NODE_ID} characters or less")


def _topology_problems(keys: Sequence[str], path: str) -> Iterator[FieldError]:
    for at, key in enumerate(keys):
        if not key:
            yield required(path)
        if key in keys[:at]:
            yield duplicate(path, key)
        for error in qualified_name_errors(key):
            yield invalid(path, key, error)


def _fixed(driver: Body) -> Body:
    """Return what of a node's driver cannot be changed."""
    return {name: value for name, value in driver.items() if name != "allocatable"}


def _source_problems(source: Body) -> Iterator[FieldError]:
    text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    given = [name for name in ("inlineVolumeSpec", "persistentVolumeName") if name in source]
    if not given:
        yield required("spec.source", text)
    elif len(given) > 1:
        yield forbidden("spec.source", text)
    elif source.get("persistentVolumeName") == "":
        path = "spec.source.persistentVolumeName"
        yield required(path, "must specify non empty persistentVolumeName")


def _as_go_prints(spec: Body) -> dict[str, Any]:
    source = spec["source"]
    return {
        "Attacher": spec["attacher"],
        "Source": {
            "PersistentVolumeName": source.get("persistentVolumeName"),
            "InlineVolumeSpec": source.get("inlineVolumeSpec"),
        },
        "NodeName": spec["nodeName"],
    }
