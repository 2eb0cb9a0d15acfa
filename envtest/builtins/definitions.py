"""CustomResourceDefinitions as objects; what they define is served by `server.definitions`."""

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.schema import FieldError, crd_warnings, default_crd, validate_crd
from envtest.server.objectmeta import Body


class DefinitionRules(BuiltinRules):
    """CRDs: names by default, structural schemas only, instances cleaned up before they go."""

    @override
    def default(self, body: Body) -> None:
        default_crd(body)

    @override
    def warnings(self, body: Body, old: Body | None) -> list[str]:
        return crd_warnings(body)

    @override
    def prepare_create(self, body: Body) -> None:
        super().prepare_create(body)
        stored = [v["name"] for v in body["spec"].get("versions", ()) if v.get("storage")]
        body["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored,
        }

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        super().prepare_update(body, old)
        stored = list(body.get("status", {}).get("storedVersions") or ())
        chosen = [v["name"] for v in body["spec"].get("versions", ()) if v.get("storage")]
        body["status"] = {
            **body.get("status", {}),
            "storedVersions": [*stored, *(one for one in chosen if one not in stored)],
        }

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        return validate_crd(body, old)
