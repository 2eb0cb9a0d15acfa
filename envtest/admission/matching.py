"""The configured webhooks, and the decision which of them a write calls, in which version.

Selectors are tested first, then rules, then match conditions. This order is that of the real
server, and it matters because each test may refuse the write.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from envtest.admission.review import (
    AdmissionAttributes,
    convert_version,
    describe_request,
    get_labels,
)
from envtest.schema.cel import CelError, MatchCondition, compile_condition
from envtest.server.api import Api
from envtest.server.failures import StatusError, build_forbidden
from envtest.server.resource import StoredResource
from envtest.server.selectors import LabelSelector, convert_label_selector
from envtest.storage import StoredObject

GROUP = "admissionregistration.k8s.io"
MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"


@dataclass(frozen=True)  # without slots, because cached properties need a __dict__
class Hook:
    """One webhook of a configuration.

    Attributes:
        body: its entry in `webhooks`, with defaults.
    """

    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name, which refusals quote."""
        return str(self.body["name"])

    @property
    def ignores_failures(self) -> bool:
        """Whether a write passes if the webhook cannot be called."""
        return self.body.get("failurePolicy") == "Ignore"

    @cached_property
    def namespace_selector(self) -> LabelSelector:
        """The namespaceSelector; an empty one matches all namespaces."""
        return convert_label_selector(self.body.get("namespaceSelector") or {})

    @cached_property
    def object_selector(self) -> LabelSelector:
        """The objectSelector; an empty one matches all objects."""
        return convert_label_selector(self.body.get("objectSelector") or {})

    @cached_property
    def conditions(self) -> Sequence[MatchCondition]:
        """The match conditions, compiled."""
        entries = self.body.get("matchConditions") or ()
        return [compile_condition(str(entry["expression"])) for entry in entries]


class Configurations:
    """The webhook configurations of one server, parsed and cached."""

    def __init__(self, api: Api) -> None:
        self._api = api
        # Plural -> name of a configuration -> its stored object and webhooks.
        self._hooks_by_name: dict[str, dict[str, tuple[StoredObject, list[Hook]]]] = {}
        # Plural -> the number of changes of its table, and all webhooks. Few writes find a change.
        self._all_hooks: dict[str, tuple[int, Sequence[Hook]]] = {}

    def list_hooks(self, plural: str) -> Sequence[Hook]:
        """Return the webhooks of one of the two kinds, in the order in which they are called.

        Configurations are sorted by name; their webhooks keep their order.
        """
        resource = self._api.registry.find(GROUP, "v1", plural)
        assert resource is not None
        table = self._api.get_table(resource)
        cached = self._all_hooks.get(plural)
        if cached is not None and cached[0] == table.changes:
            return cached[1]
        all_hooks: list[Hook] = []
        former = self._hooks_by_name.get(plural, {})
        self._hooks_by_name[plural] = {}
        for key in sorted(table.iterate_keys()):
            stored = table.get(key)
            if stored is None:
                continue
            entry = former.get(key)
            # Only a changed configuration is parsed again: each write stores another object.
            if entry is None or entry[0] is not stored:
                bodies = resource.decode_object(stored).get("webhooks") or ()
                entry = (stored, [Hook(body) for body in bodies])
            self._hooks_by_name[plural][key] = entry
            all_hooks += entry[1]
        self._all_hooks[plural] = (table.changes, all_hooks)
        return all_hooks


@dataclass(frozen=True, slots=True)
class Invocation:
    """A webhook to call, with the version of the resource that it gets."""

    hook: Hook
    resource: StoredResource


class Matcher:
    """Decides which webhooks a write is sent to."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def find_invocation(self, hook: Hook, attributes: AdmissionAttributes) -> Invocation | None:
        """Return the invocation of a webhook for a write; None if the write does not match it.

        Raises:
            StatusError: the namespace does not exist, or a match condition cannot be evaluated
                and the webhook must not be skipped.
        """
        namespace_error: StatusError | None = None
        try:
            if not self._matches_namespace(hook, attributes):
                return None
        except StatusError as error:
            # As in the real server, the error is raised only if object and rules match.
            namespace_error = error
        if not _matches_object(hook, attributes):
            return None
        resource = self._find_resource(hook, attributes)
        if resource is None:
            return None
        if namespace_error is not None:
            raise namespace_error
        if hook.conditions and not _satisfies_conditions(hook, attributes, resource):
            return None
        return Invocation(hook, resource)

    def _matches_namespace(self, hook: Hook, attributes: AdmissionAttributes) -> bool:
        """Return whether the namespaceSelector matches the namespace of a write.

        Writes of cluster-scoped objects always match, except for those of namespaces.

        Raises:
            StatusError: the namespace does not exist.
        """
        if not hook.namespace_selector or not (attributes.namespace or attributes.is_namespace):
            return True
        has_new_labels = attributes.operation != "DELETE" and not attributes.subresource
        if attributes.is_namespace and has_new_labels:
            # The stored namespace does not have the labels of this write yet.
            return hook.namespace_selector.matches(get_labels(attributes.new))
        namespaces = self._api.registry.find("", "v1", "namespaces")
        assert namespaces is not None
        stored = self._api.get_table(namespaces).get(attributes.namespace)
        if stored is None:
            raise namespaces.build_not_found_error(attributes.namespace)
        return hook.namespace_selector.matches(get_labels(namespaces.decode_object(stored)))

    def _find_resource(self, hook: Hook, attributes: AdmissionAttributes) -> StoredResource | None:
        """Return the version of the resource that a rule of the webhook names; None if none does.

        The version of the request takes precedence. With matchPolicy Exact, others do not count.
        """
        request_resource = attributes.call.resource
        rules = hook.body.get("rules") or ()
        if any(_matches_rule(rule, attributes, request_resource) for rule in rules):
            return request_resource
        if hook.body.get("matchPolicy") == "Exact":
            return None
        versions = list(self._iterate_versions(request_resource, attributes.subresource))
        return next(
            (
                version
                for rule in rules
                for version in versions
                if _matches_rule(rule, attributes, version)
            ),
            None,
        )

    def _iterate_versions(
        self, request_resource: StoredResource, subresource: str
    ) -> Iterator[StoredResource]:
        """Yield the other resources that share the table and have the subresource."""
        for other in self._api.registry:
            has_subresource = not subresource or subresource in other.subresources
            is_same_table = other.table_name == request_resource.table_name
            if other is not request_resource and is_same_table and has_subresource:
                yield other


def bypasses_webhooks(attributes: AdmissionAttributes) -> bool:
    """Return whether a write calls no webhook, because its object configures webhooks.

    Otherwise a broken webhook could not be removed, because it would refuse its own deletion.
    """
    resource = attributes.call.resource
    return resource.group == GROUP and resource.plural.startswith(("mutating", "validating"))


def _matches_object(hook: Hook, attributes: AdmissionAttributes) -> bool:
    """Return whether the objectSelector matches the object, before the write or after it."""
    if not hook.object_selector:
        return True
    bodies = [body for body in (attributes.new, attributes.old) if body is not None]
    return any(hook.object_selector.matches(get_labels(body)) for body in bodies)


def _matches_rule(
    rule: Mapping[str, Any], attributes: AdmissionAttributes, resource: StoredResource
) -> bool:
    """Return whether a rule matches a write of a resource in this version."""
    scope = rule.get("scope") or "*"
    return (
        scope in {"*", "Namespaced" if resource.namespaced else "Cluster"}
        and _contains_name_or_wildcard(rule.get("operations"), attributes.operation)
        and _contains_name_or_wildcard(rule.get("apiGroups"), resource.group)
        and _contains_name_or_wildcard(rule.get("apiVersions"), resource.version)
        and any(
            _matches_resource(pattern, resource.plural, attributes.subresource)
            for pattern in rule.get("resources") or ()
        )
    )


def _contains_name_or_wildcard(values: list[str] | None, name: str) -> bool:
    """Return whether a list of a rule contains a name or `*`."""
    return any(value in {"*", name} for value in values or ())


def _matches_resource(pattern: str, plural: str, subresource: str) -> bool:
    """Return whether a pattern such as `pods`, `pods/*` or `*/scale` matches a resource."""
    plural_pattern, _, subresource_pattern = pattern.partition("/")
    return plural_pattern in {"*", plural} and subresource_pattern in (subresource, "*")


def _satisfies_conditions(
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
        "object": convert_version(attributes.new, request_resource, resource),
        "oldObject": convert_version(attributes.old, request_resource, resource),
        "request": describe_request(attributes, resource),
        # Unlike in kube-apiserver, conditions cannot read the namespace.
        "namespaceObject": None,
    }
    errors: list[str] = []
    for condition in hook.conditions:
        why = condition.failure
        # A condition that does not compile has no program, and counts as one that cannot be
        # evaluated.
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
    joined = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    raise build_forbidden(
        request_resource.plural, request_resource.group, name=attributes.name, why=joined
    )
