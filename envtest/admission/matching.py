"""Which webhooks a write concerns, and in which version they want to see it.

The order of the questions is the real server's: selectors first, then rules, then conditions; it
matters because each of them may end in a refusal.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envtest.admission.attributes import Attributes, in_version, labels
from envtest.admission.configurations import GROUP, Hook
from envtest.admission.review import condition_request
from envtest.schema.cel import CelError
from envtest.server.api import Api
from envtest.server.failures import StatusError, forbidden
from envtest.server.resource import Resource


@dataclass(frozen=True, slots=True)
class Invocation:
    """A webhook to ask, with the version of the resource that it is asked about."""

    hook: Hook
    resource: Resource


class Matcher:
    """Decides who is asked."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def invocation(self, hook: Hook, attributes: Attributes) -> Invocation | None:
        """Return how to ask a hook about a write, None if it is not concerned.

        Raises:
            StatusError: a condition cannot be decided and the hook must not be passed over.
        """
        homeless: StatusError | None = None
        try:
            if not self._namespace_fits(hook, attributes):
                return None
        except StatusError as error:
            homeless = error
        if not _object_fits(hook, attributes):
            return None
        resource = self._resource(hook, attributes)
        if resource is None:
            return None
        if homeless is not None:
            raise homeless
        if hook.conditions and not _conditions_hold(hook, attributes, resource):
            return None
        return Invocation(hook, resource)

    def _namespace_fits(self, hook: Hook, attributes: Attributes) -> bool:
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

    def _resource(self, hook: Hook, attributes: Attributes) -> Resource | None:
        """Return the version of the resource that a rule names, the client's own before others."""
        given = attributes.call.resource
        rules = hook.body.get("rules") or ()
        if any(_rule_fits(rule, attributes, given) for rule in rules):
            return given
        if hook.body.get("matchPolicy") == "Exact":
            return None
        others = list(self._equivalents(given, attributes.subresource))
        return next(
            (one for rule in rules for one in others if _rule_fits(rule, attributes, one)), None
        )

    def _equivalents(self, given: Resource, subresource: str) -> Iterator[Resource]:
        for one in self._api.registry:
            has_it = not subresource or subresource in one.subresources
            if one is not given and one.place == given.place and has_it:
                yield one


def concerns_nobody(attributes: Attributes) -> bool:
    """Tell whether webhooks are never asked: a broken one could not be removed any more."""
    resource = attributes.call.resource
    return resource.group == GROUP and resource.plural.startswith(("mutating", "validating"))


def _object_fits(hook: Hook, attributes: Attributes) -> bool:
    """Tell whether the labels fit, before the write or after it."""
    if not hook.objects:
        return True
    bodies = [body for body in (attributes.new, attributes.old) if body is not None]
    return any(hook.objects.matches(labels(body)) for body in bodies)


def _rule_fits(rule: Mapping[str, Any], attributes: Attributes, resource: Resource) -> bool:
    scope = rule.get("scope") or "*"
    return (
        scope in {"*", "Namespaced" if resource.namespaced else "Cluster"}
        and _among(rule.get("operations"), attributes.operation)
        and _among(rule.get("apiGroups"), resource.group)
        and _among(rule.get("apiVersions"), resource.version)
        and any(
            _resource_fits(one, resource.plural, attributes.subresource)
            for one in rule.get("resources") or ()
        )
    )


def _among(values: list[str] | None, wanted: str) -> bool:
    return any(one in {"*", wanted} for one in values or ())


def _resource_fits(pattern: str, plural: str, subresource: str) -> bool:
    main, _, sub = pattern.partition("/")
    return main in {"*", plural} and sub in (subresource, "*")


def _conditions_hold(hook: Hook, attributes: Attributes, resource: Resource) -> bool:
    """Tell whether all match conditions hold; one that does not outweighs those without a value.

    Raises:
        StatusError: some have no value, no other one is false, and the hook must be asked.
    """
    given = attributes.call.resource
    variables = {
        "object": in_version(attributes.new, given, resource),
        "oldObject": in_version(attributes.old, given, resource),
        "request": condition_request(attributes, resource),
        "namespaceObject": None,
    }
    errors: list[str] = []
    for one in hook.conditions:
        why = one.failure
        if one.program is not None:
            try:
                if one.program.evaluate(variables) is not True:
                    return False
                continue
            except CelError as error:
                why = str(error)
        errors.append(f"expression '{one.expression}' resulted in error: {why}")
    if not errors:
        return True
    if hook.ignores_failures:
        return False
    said = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    raise forbidden(given.plural, given.group, attributes.name, said)
