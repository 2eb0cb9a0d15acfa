"""Which webhooks are configured, which a write concerns, and the version that they want to see.

The order of the questions is the real server's: selectors first, then rules, then conditions; it
matters because each of them may end in a refusal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from envtest.admission.review import AdmissionAttributes, admission_request, in_version, labels
from envtest.schema.cel import CelError, MatchCondition, compile_condition
from envtest.server.api import Api
from envtest.server.failures import StatusError, forbidden
from envtest.server.resource import StoredResource
from envtest.server.selectors import LabelSelector, read_label_selector
from envtest.storage import Stored

GROUP = "admissionregistration.k8s.io"
MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"


@dataclass(frozen=True)  # no slots: the parsed parts are made when they are first needed
class Hook:
    """One entry of a configuration.

    Attributes:
        body: the entry, its defaults filled in.
    """

    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return its name, which refusals quote."""
        return str(self.body["name"])

    @property
    def ignores_failures(self) -> bool:
        """Return whether a write passes when the hook cannot be asked."""
        return self.body.get("failurePolicy") == "Ignore"

    @cached_property
    def namespaces(self) -> LabelSelector:
        """The labels of the namespaces that it wants to see."""
        return read_label_selector(self.body.get("namespaceSelector") or {})

    @cached_property
    def objects(self) -> LabelSelector:
        """The labels of the objects that it wants to see."""
        return read_label_selector(self.body.get("objectSelector") or {})

    @cached_property
    def conditions(self) -> Sequence[MatchCondition]:
        """Its match conditions, compiled."""
        entries = self.body.get("matchConditions") or ()
        return [compile_condition(str(entry["expression"])) for entry in entries]


class Configurations:
    """All webhooks of one server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._parsed: dict[str, dict[str, tuple[Stored, list[Hook]]]] = {}
        # The hooks of a table, with its count of changes: nearly every write finds both unchanged.
        self._listed: dict[str, tuple[int, Sequence[Hook]]] = {}

    def hooks(self, plural: str) -> Sequence[Hook]:
        """Return the webhooks of one of the two kinds: by configuration, then as listed."""
        resource = self._api.registry.find(GROUP, "v1", plural)
        assert resource is not None
        table = self._api.table(resource)
        listed = self._listed.get(plural)
        if listed is not None and listed[0] == table.changes:
            return listed[1]
        webhooks: list[Hook] = []
        before, self._parsed[plural] = self._parsed.get(plural, {}), {}
        for key in sorted(table.scan()):
            stored = table.get(key)
            if stored is None:
                continue
            known = before.get(key)
            if known is None or known[0] is not stored:
                entries = resource.load(stored).get("webhooks") or ()
                hooks = [Hook(entry) for entry in entries]
                known = (stored, hooks)
            self._parsed[plural][key] = known
            webhooks += known[1]
        self._listed[plural] = (table.changes, webhooks)
        return webhooks


@dataclass(frozen=True, slots=True)
class Invocation:
    """A webhook to ask, with the version of the resource that it is asked about."""

    hook: Hook
    resource: StoredResource


class Matcher:
    """Decides which webhooks a write is sent to."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def invocation(self, hook: Hook, attributes: AdmissionAttributes) -> Invocation | None:
        """Return how to call a hook about a write, None if its rules do not match.

        Raises:
            StatusError: a condition cannot be decided and the hook must not be passed over.
        """
        no_namespace: StatusError | None = None
        try:
            if not self._namespace_fits(hook, attributes):
                return None
        except StatusError as error:
            no_namespace = error
        if not _object_fits(hook, attributes):
            return None
        resource = self._resource(hook, attributes)
        if resource is None:
            return None
        if no_namespace is not None:
            raise no_namespace
        if hook.conditions and not _conditions_hold(hook, attributes, resource):
            return None
        return Invocation(hook, resource)

    def _namespace_fits(self, hook: Hook, attributes: AdmissionAttributes) -> bool:
        """Return whether the labels of the request's namespace match the hook's selector."""
        if not hook.namespaces or not (attributes.namespace or attributes.is_namespace):
            return True
        written = attributes.operation != "DELETE" and not attributes.subresource
        if attributes.is_namespace and written:
            # The stored one does not have the labels yet.
            return hook.namespaces.matches(labels(attributes.new))
        home = self._api.registry.find("", "v1", "namespaces")
        assert home is not None
        stored = self._api.table(home).get(attributes.namespace)
        if stored is None:
            raise home.not_found(attributes.namespace)
        return hook.namespaces.matches(labels(home.load(stored)))

    def _resource(self, hook: Hook, attributes: AdmissionAttributes) -> StoredResource | None:
        """Return the version of the resource that a rule names, the client's own before others."""
        request_resource = attributes.call.resource
        rules = hook.body.get("rules") or ()
        if any(_rule_fits(rule, attributes, request_resource) for rule in rules):
            return request_resource
        if hook.body.get("matchPolicy") == "Exact":
            return None
        others = list(self._equivalents(request_resource, attributes.subresource))
        return next(
            (other for rule in rules for other in others if _rule_fits(rule, attributes, other)),
            None,
        )

    def _equivalents(
        self, request_resource: StoredResource, subresource: str
    ) -> Iterator[StoredResource]:
        for other in self._api.registry:
            has_it = not subresource or subresource in other.subresources
            if other is not request_resource and other.place == request_resource.place and has_it:
                yield other


def bypasses_webhooks(attributes: AdmissionAttributes) -> bool:
    """Return whether the object is a webhook configuration, whose writes call no webhook.

    Otherwise a broken webhook could not be removed any more.
    """
    resource = attributes.call.resource
    return resource.group == GROUP and resource.plural.startswith(("mutating", "validating"))


def _object_fits(hook: Hook, attributes: AdmissionAttributes) -> bool:
    """Return whether the labels fit, before the write or after it."""
    if not hook.objects:
        return True
    bodies = [body for body in (attributes.new, attributes.old) if body is not None]
    return any(hook.objects.matches(labels(body)) for body in bodies)


def _rule_fits(
    rule: Mapping[str, Any], attributes: AdmissionAttributes, resource: StoredResource
) -> bool:
    scope = rule.get("scope") or "*"
    return (
        scope in {"*", "Namespaced" if resource.namespaced else "Cluster"}
        and _among(rule.get("operations"), attributes.operation)
        and _among(rule.get("apiGroups"), resource.group)
        and _among(rule.get("apiVersions"), resource.version)
        and any(
            _resource_fits(pattern, resource.plural, attributes.subresource)
            for pattern in rule.get("resources") or ()
        )
    )


def _among(values: list[str] | None, name: str) -> bool:
    return any(value in {"*", name} for value in values or ())


def _resource_fits(pattern: str, plural: str, subresource: str) -> bool:
    main, _, sub = pattern.partition("/")
    return main in {"*", plural} and sub in (subresource, "*")


def _conditions_hold(
    hook: Hook, attributes: AdmissionAttributes, resource: StoredResource
) -> bool:
    """Return whether all match conditions of a hook hold.

    One false condition decides, even if others cannot be evaluated. Without a false one, a
    condition that cannot be evaluated counts as false if the hook's failurePolicy is Ignore.

    Raises:
        StatusError: no condition is false, some cannot be evaluated, and failurePolicy is Fail.
    """
    request_resource = attributes.call.resource
    variables = {
        "object": in_version(attributes.new, request_resource, resource),
        "oldObject": in_version(attributes.old, request_resource, resource),
        "request": admission_request(attributes, resource),
        "namespaceObject": None,
    }
    errors: list[str] = []
    for condition in hook.conditions:
        why = condition.failure
        if condition.program is not None:
            try:
                if condition.program.evaluate(variables) is not True:
                    return False
                continue
            except CelError as error:
                why = str(error)
        errors.append(f"expression '{condition.expression}' resulted in error: {why}")
    if not errors:
        return True
    if hook.ignores_failures:
        return False
    said = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    raise forbidden(
        request_resource.plural, request_resource.group, name=attributes.name, why=said
    )
