"""CustomResourceDefinitions as objects; what they define is served by `server.definitions`."""

from typing import Any

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.schema.errors import FieldError, invalid, required
from envtest.server.objectmeta import Body

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class DefinitionRules(BuiltinRules):
    """CRDs: names by default, structural schemas only, instances cleaned up before they go."""

    @override
    def default(self, body: Body) -> None:
        spec = body.setdefault("spec", {})
        names = spec.setdefault("names", {})
        kind = names.get("kind", "")
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
        spec.setdefault("conversion", {}).setdefault("strategy", "None")
        for version in spec.get("versions", ()):
            version.setdefault("served", False)

    @override
    def first_status(self) -> dict[str, Any]:
        return {}

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
        spec, name = body["spec"], body["metadata"].get("name", "")
        found = []
        if name != f"{spec['names'].get('plural')}.{spec.get('group')}":
            text = 'must be spec.names.plural+"."+spec.group'
            found.append(invalid("metadata.name", name, text))
        for at, version in enumerate(spec.get("versions", ())):
            if not (version.get("schema") or {}).get("openAPIV3Schema"):
                found.append(required(f"spec.versions[{at}].schema.openAPIV3Schema"))
        return found
