"""From a CRD to the resources that it defines, one for each served version."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from envtest.server.api import Api
from envtest.server.converting import WebhookConversion
from envtest.server.custom import CustomRules
from envtest.server.objectmeta import Body
from envtest.server.ownership import converted_versions, plain_versions
from envtest.server.registry import version_rank
from envtest.server.resource import MAIN_VERBS, Resource
from envtest.storage import Stored

_encode = msgspec.json.Encoder(order="sorted").encode
_SUB_VERBS = ["get", "patch", "update"]


class Definition:
    """A CRD that is established, compiled.

    Attributes:
        spec: its `spec`, with the names that were accepted.
        storage: the name of the version that is stored.
        place: where its objects are stored.
    """

    def __init__(self, api: Api, body: Body) -> None:
        accepted = body["status"].get("acceptedNames") or {}
        self.spec: Body = {**body["spec"], "names": {**body["spec"]["names"], **accepted}}
        group, names = self.spec["group"], self.spec["names"]
        self.place = f"{group}/{names['plural']}"
        self._rules = {v["name"]: CustomRules(self.spec, v) for v in self.spec["versions"]}
        self.storage = next(v["name"] for v in self.spec["versions"] if v["storage"])
        self._conversion = self._converter(api)
        models = {f"{group}/{name}": rules.model() for name, rules in self._rules.items()}
        self._versions = (
            plain_versions(models)
            if self._conversion is None
            else converted_versions(models, self._conversion)
        )

    def _converter(self, api: Api) -> WebhookConversion | None:
        conversion = self.spec.get("conversion") or {}
        if conversion.get("strategy") != "Webhook":
            return None

        async def ask(client: Mapping[str, Any], review: Mapping[str, Any]) -> Body:
            return await api.converse(client, review)

        return WebhookConversion(conversion["webhook"], ask)

    def resources(self) -> Iterator[Resource]:
        """Yield the resource of each served version."""
        for version in self.spec["versions"]:
            if version["served"]:
                yield self._resource(version)

    def _resource(self, version: Body) -> Resource:
        names = self.spec["names"]
        rules, stored = self._rules[version["name"]], self._rules[self.storage]
        alike = rules is stored and self._conversion is None
        return Resource(
            group=self.spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            list_kind=names["listKind"],
            singular=names["singular"],
            namespaced=self.spec["scope"] == "Namespaced",
            rules=rules,
            verbs=MAIN_VERBS,
            subresources=self._subresources(rules),
            short_names=tuple(names.get("shortNames", ())),
            categories=tuple(names.get("categories", ())),
            deprecation=_deprecation(self.spec, version),
            place=self.place,
            to_version=None if alike else rules.fitted,
            to_storage=None if alike else stored.fitted,
            versions=self._versions,
            conversion=self._conversion,
            storage_version=f"{self.spec['group']}/{self.storage}",
        )

    def _subresources(self, rules: CustomRules) -> Body:
        namespaced = self.spec["scope"] == "Namespaced"
        shared = {"namespaced": namespaced, "singularName": "", "verbs": _SUB_VERBS}
        found = {}
        if rules.has_status:
            found["status"] = {**shared, "kind": self.spec["names"]["kind"]}
        if rules.scale is not None:
            scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
            found["scale"] = {**shared, **scale}
        return found

    def refit(self, api: Api, before: str) -> None:
        """Let stored objects read as the present schema has it: new defaults, nothing unknown.

        The real server does this on every read; nobody sees a write. Where a webhook converts,
        objects are fitted when they are read, but have to tell in which version they are.

        Args:
            api: the state.
            before: the name of the version in which objects were stored so far.
        """
        table = api.store.table(self.place)
        change = partial(self._stamped, before) if self._conversion else self._plain
        for key in list(table.scan()):
            stored = table.get(key)
            if stored is not None:
                body = _encode(change(msgspec.json.decode(stored.body)))
                table.put(Stored(key, stored.revision, body))

    def _plain(self, body: Body) -> Body:
        body.pop("apiVersion", None)
        return self._rules[self.storage].fitted(body)

    def _stamped(self, before: str, body: Body) -> Body:
        return {"apiVersion": f"{self.spec['group']}/{before}", **body}


def _deprecation(spec: Body, version: Body) -> str:
    """Return the warning that a version comes with: its own, or one that names a better one."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, kind = spec["group"], spec["names"]["kind"]
    rank = version_rank(version["name"])
    better = [
        one["name"]
        for one in spec["versions"]
        if one["served"] and not one.get("deprecated") and version_rank(one["name"]) < rank
    ]
    text = f"{group}/{version['name']} {kind} is deprecated"
    if not better:
        return text
    return f"{text}; use {group}/{min(better, key=version_rank)} {kind}"
