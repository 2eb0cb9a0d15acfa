"""APIServices: which group versions there are, and who serves them.

Texts and order follow the registry of apiregistration.k8s.io. This server serves its own ones and
forwards nothing, so whoever registers another server is told so.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from typing_extensions import override

from envtest.builtins.shaped import ShapedRules
from envtest.schema.errors import FieldError, invalid, not_supported, required
from envtest.schema.names import label_1035_errors, subdomain_errors
from envtest.server import objectmeta
from envtest.server.objectmeta import Body, path_segment_errors

_HIGHEST_GROUP: Final = 20_000
_HIGHEST_VERSION: Final = 1000
_HIGHEST_PORT: Final = 65_535
_STATES: Final = ("True", "False", "Unknown")


class ApiServiceRules(ShapedRules):
    """APIServices; local ones are available at once."""

    conditional: ClassVar[bool] = True
    judged_whole: ClassVar[bool] = False

    @override
    def __init__(self, group: str, version: str, kind: str, *, has_status: bool) -> None:
        super().__init__(group, version, kind, has_status=has_status)
        # A name is judged with the group and version that it has to be made of.
        self.name_rule = path_segment_errors

    @override
    def default(self, body: Body) -> None:
        super().default(body)
        if "service" in body["spec"]:
            body["spec"]["service"].setdefault("port", 443)

    @override
    def warnings(self, body: Body, old: Body | None) -> list[str]:
        spec = body["spec"]
        if old is None and "service" in spec:
            where = f"{spec.get('group', '')}/{spec.get('version', '')}"
            return [f"this server forwards no requests: nobody will answer for {where}"]
        return []

    @override
    def prepare_create(self, body: Body) -> None:
        super().prepare_create(body)
        if "service" not in body["spec"]:
            body["status"] = {"conditions": [local_condition()]}

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec, name = body["spec"], body["metadata"].get("name", "")
        group, version = spec.get("group", ""), spec.get("version", "")
        wanted = f"{version}.{group}"
        if not path_segment_errors(name) and name != wanted:
            text = f'must be `spec.version+"."+spec.group`: "{wanted}"'
            yield invalid("metadata.name", name, text)
        if not group and version != "v1":
            text = "only v1 may have an empty group and it better be legacy kube"
            yield required("spec.group", text)
        for error in subdomain_errors(group) if group else ():
            yield invalid("spec.group", group, error)
        for error in label_1035_errors(version):
            yield invalid("spec.version", version, error)
        for field, most in (
            ("groupPriorityMinimum", _HIGHEST_GROUP),
            ("versionPriority", _HIGHEST_VERSION),
        ):
            if not 0 < spec[field] <= most:
                text = f"must be positive and less than {most}"
                yield invalid(f"spec.{field}", spec[field], text)
        yield from _trust_problems(spec)

    @override
    def status_problems(self, body: Body) -> Iterator[FieldError]:
        for at, one in enumerate((body.get("status") or {}).get("conditions") or ()):
            if one.get("status", "") not in _STATES:
                path = f"status.conditions[{at}].status"
                yield not_supported(path, one.get("status", ""), _STATES)


def local_condition() -> dict[str, Any]:
    """Return the condition of what this server serves itself."""
    return {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": objectmeta.timestamp(),
        "reason": "Local",
        "message": "Local APIServices are always available",
    }


def _trust_problems(spec: Body) -> Iterator[FieldError]:
    service, blind = spec.get("service"), spec.get("insecureSkipTLSVerify", False)
    path = "spec.insecureSkipTLSVerify"
    if service is None:
        if spec.get("caBundle"):
            count = len(spec["caBundle"]) * 3 // 4 - spec["caBundle"].count("=")
            text = "local APIServices may not have a caBundle"
            yield invalid("spec.caBundle", f"{count} bytes", text)
        if blind:
            yield invalid(path, blind, "local APIServices may not have insecureSkipTLSVerify")
        return
    for name in ("namespace", "name"):
        if not service.get(name):
            yield required(f"spec.service.{name}")
    if not 0 < service["port"] <= _HIGHEST_PORT:
        text = f"port is not valid: must be between 1 and {_HIGHEST_PORT}, inclusive"
        yield invalid("spec.service.port", service["port"], text)
    if blind and spec.get("caBundle"):
        yield invalid(path, blind, "may not be true if caBundle is present")
