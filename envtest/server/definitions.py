"""From CustomResourceDefinitions to served resources: names, establishment, clean-up.

The parts of kube-apiserver that do this are controllers. Here it happens in the same turn of the
event loop as the write that it follows: nobody has to wait, and there is nothing to race with.
"""

import msgspec

from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.custom import CustomRules
from envtest.server.objectmeta import Body
from envtest.server.resource import MAIN_VERBS, Resource
from envtest.storage import Event, Stored

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_PLACE = "apiextensions.k8s.io/customresourcedefinitions"
_encode = msgspec.json.Encoder(order="sorted").encode
_SUB_VERBS = ["get", "patch", "update"]


class Definitions:
    """Follows CRDs and keeps the registry in step."""

    def __init__(self, api: Api) -> None:
        self._api = api
        # plural.group -> generation that is served.
        self._served: dict[str, int] = {}
        found = api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert found is not None
        self._resource = found

    def attach(self) -> None:
        """Settle what is there, and from now on every CRD as soon as it changes."""
        self.settle()
        self._api.store.listeners.append(self._notice)

    def _notice(self, place: str, event: Event) -> None:
        """Follow one change; own writes come back here and find nothing left to do."""
        if place != _PLACE:
            return
        if event.type != "DELETED":
            self._settle_one(event.current.key)
        elif event.current.key in self._served:
            self._withdraw(event.current.key)
        if event.type == "DELETED":
            # Names that it held may be what another CRD waits for.
            self.settle()

    def settle(self) -> None:
        """Bring every CRD as far as it can get now."""
        table = self._api.store.table(_PLACE)
        for key in list(table.scan()):
            self._settle_one(key)
        for name in [name for name in self._served if table.get(name) is None]:
            self._withdraw(name)

    def _settle_one(self, key: str) -> None:
        """Bring one CRD as far as it can get; done when a step writes nothing."""
        table = self._api.store.table(_PLACE)
        while (stored := table.get(key)) is not None and self._step(stored):
            pass

    def _step(self, stored: Stored) -> bool:
        """Do one thing for a CRD; tell whether something was written."""
        body = self._resource.load(stored)
        meta, status = body["metadata"], body.setdefault("status", {})
        if "deletionTimestamp" in meta:
            return self._clean_up(body)
        if _CLEANUP not in meta.get("finalizers", ()):
            meta["finalizers"] = [*meta.get("finalizers", ()), _CLEANUP]
            return self._write(body)
        if self._accept(body, status):
            return self._write(body)
        if condition(body, "Established") == "True":
            self._serve(body)
        return False

    def _accept(self, body: Body, status: Body) -> bool:
        """Decide about the names; tell whether the status changed."""
        names = body["spec"]["names"]
        taken = self._taken(body)
        if taken:
            wanted = ("False", taken[0], taken[1])
        else:
            wanted = ("True", "NoConflicts", "no conflicts found")
        changed = set_condition(status, "NamesAccepted", *wanted)
        if not taken and status.get("acceptedNames") != names:
            status["acceptedNames"] = dict(names)
            changed = True
        if not taken:
            text = "the initial names have been accepted"
            changed |= set_condition(status, "Established", "True", "InitialNamesAccepted", text)
        elif condition(body, "Established") is None:
            text = "not all names are accepted"
            changed |= set_condition(status, "Established", "False", "NotAccepted", text)
        return changed

    def _taken(self, body: Body) -> tuple[str, str] | None:
        """Return reason and message if another CRD of the group holds one of the names."""
        spec, name = body["spec"], body["metadata"]["name"]
        table = self._api.store.table(_PLACE)
        for key in table.scan():
            stored = table.get(key)
            if stored is None or key == name:
                continue
            other = self._resource.load(stored)
            accepted = other.get("status", {}).get("acceptedNames", {})
            if other["spec"]["group"] != spec["group"]:
                continue
            for field, reason in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
                if spec["names"][field] in {accepted.get("kind"), accepted.get("listKind")}:
                    return reason, f'"{spec["names"][field]}" is already in use'
        return None

    def _serve(self, body: Body) -> None:
        """Put every served version into the registry."""
        name, spec = body["metadata"]["name"], body["spec"]
        generation = body["metadata"]["generation"]
        if self._served.get(name) == generation:
            return
        self._api.registry.remove(spec["group"], spec["names"]["plural"])
        chosen = next(one for one in spec["versions"] if one["storage"])
        stored = CustomRules(spec, chosen)
        for version in spec["versions"]:
            if version["served"]:
                self._api.registry.add(custom_resource(spec, version, stored))
        self._served[name] = generation
        if generation > 1:
            self._refit(f"{spec['group']}/{spec['names']['plural']}", stored)

    def _refit(self, place: str, rules: CustomRules) -> None:
        """Let stored objects read as the present schema has it: new defaults, nothing unknown.

        The real server does this on every read; nobody sees a write.
        """
        table = self._api.store.table(place)
        for key in list(table.scan()):
            stored = table.get(key)
            if stored is not None:
                body = _encode(rules.fitted(msgspec.json.decode(stored.body)))
                table.put(Stored(key, stored.revision, body))

    def _withdraw(self, name: str) -> None:
        """Serve a CRD no more."""
        plural, _, group = name.partition(".")
        self._api.registry.remove(group, plural)
        self._api.store.drop(f"{group}/{plural}")
        del self._served[name]

    def _clean_up(self, body: Body) -> bool:
        """Remove a terminating CRD's objects, then let it go."""
        meta, spec = body["metadata"], body["spec"]
        if _CLEANUP not in meta.get("finalizers", ()):
            return False
        place = f"{spec['group']}/{spec['names']['plural']}"
        self._api.registry.remove(spec["group"], spec["names"]["plural"])
        table = self._api.store.table(place)
        for key in list(table.scan()):
            stored = table.get(key)
            if stored is not None:
                self._api.store.delete(place, key, self._resource.load(stored))
        meta["finalizers"] = [one for one in meta["finalizers"] if one != _CLEANUP]
        if not meta["finalizers"]:
            del meta["finalizers"]
            stored_form = self._resource.stored_form(body)
            self._api.store.delete(_PLACE, meta["name"], stored_form)
            return False
        return self._write(body)

    def _write(self, body: Body) -> bool:
        self._api.store.write(_PLACE, body["metadata"]["name"], self._resource.stored_form(body))
        return True


def custom_resource(spec: Body, version: Body, stored: CustomRules) -> Resource:
    """Return one version of what a CRD defines; `stored` are the rules of the storage version."""
    names = spec["names"]
    rules = stored if version["storage"] else CustomRules(spec, version)
    namespaced = spec["scope"] == "Namespaced"
    shared = {"namespaced": namespaced, "singularName": "", "verbs": _SUB_VERBS}
    subresources = {}
    if rules.has_status:
        subresources["status"] = {**shared, "kind": names["kind"]}
    if rules.scale is not None:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        subresources["scale"] = {**shared, **scale}
    return Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        list_kind=names["listKind"],
        singular=names["singular"],
        namespaced=namespaced,
        rules=rules,
        verbs=MAIN_VERBS,
        subresources=subresources,
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        place=f"{spec['group']}/{names['plural']}",
        to_version=None if rules is stored else rules.fitted,
        to_storage=None if rules is stored else stored.fitted,
    )


def condition(body: Body, kind: str) -> str | None:
    """Return the status of a condition, if it is there."""
    for one in body.get("status", {}).get("conditions") or ():
        if one["type"] == kind:
            return str(one["status"])
    return None


def set_condition(status: Body, kind: str, value: str, reason: str, message: str) -> bool:
    """Set a condition; tell whether it changed."""
    conditions = list(status.get("conditions") or ())
    wanted = {"type": kind, "status": value, "reason": reason, "message": message}
    for at, one in enumerate(conditions):
        if one["type"] == kind:
            if {name: one.get(name) for name in wanted} == wanted:
                return False
            same = one["status"] == value
            since = one["lastTransitionTime"] if same else objectmeta.timestamp()
            conditions[at] = {**wanted, "lastTransitionTime": since}
            break
    else:
        conditions.append({**wanted, "lastTransitionTime": objectmeta.timestamp()})
    status["conditions"] = conditions
    return True
