"""What flow schemas match: who asks, and for what.

Texts and order follow k8s.io/kubernetes/pkg/apis/flowcontrol/validation.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from envtest.schema.errors import FieldError, forbidden, invalid, not_supported, required
from envtest.schema.names import label_errors, subdomain_errors
from envtest.server.objectmeta import Body

_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
)
# Kind -> field of the subject.
_SUBJECTS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}


def rule_problems(rule: Body, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with a rule of a flow schema."""
    subjects = rule.get("subjects") or ()
    if not subjects:
        yield required(f"{path}.subjects", "subjects must contain at least one value")
    for at, subject in enumerate(subjects):
        yield from _subject_problems(subject, f"{path}.subjects[{at}]")
    on_resources, on_paths = rule.get("resourceRules") or (), rule.get("nonResourceRules") or ()
    if not on_resources and not on_paths:
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        yield required(path, text)
    for at, one in enumerate(on_resources):
        yield from _resource_problems(one, f"{path}.resourceRules[{at}]")
    for at, one in enumerate(on_paths):
        yield from _path_problems(one, f"{path}.nonResourceRules[{at}]")


def _subject_problems(subject: Body, path: str) -> Iterator[FieldError]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        yield not_supported(f"{path}.kind", kind, tuple(_SUBJECTS))
        return
    field = _SUBJECTS[kind]
    given = subject.get(field)
    if given is None:
        yield required(f"{path}.{field}", f"{field} is required when subject kind is '{kind}'")
    else:
        name = given.get("name", "")
        if not name:
            yield required(f"{path}.{field}.name")
        elif kind == "ServiceAccount" and name != "*":
            for error in subdomain_errors(name):
                yield invalid(f"{path}.{field}.name", name, error)
        if kind == "ServiceAccount":
            yield from _home_problems(given.get("namespace", ""), f"{path}.{field}.namespace")
    for other, name in sorted(_SUBJECTS.items(), key=lambda item: item[0], reverse=True):
        if other != kind and name in subject:
            text = f"{name} is forbidden when subject kind is not '{other}'"
            yield forbidden(f"{path}.{name}", text)


def _home_problems(namespace: str, path: str) -> Iterator[FieldError]:
    if not namespace:
        yield required(path, "must specify namespace for service account")
    for error in label_errors(namespace) if namespace else ():
        yield invalid(path, namespace, error)


def _verb_problems(rule: Body, path: str) -> Iterator[FieldError]:
    path, verbs = f"{path}.verbs", rule.get("verbs") or []
    if not verbs:
        yield required(path, "verbs must contain at least one value")
    elif "*" in verbs:
        yield from _star_problems(verbs, path, "verbs")
    elif not set(verbs) <= set(_VERBS):
        yield not_supported(path, verbs, _VERBS)


def _star_problems(values: Sequence[str], path: str, called: str) -> Iterator[FieldError]:
    if "*" in values and len(values) > 1:
        yield invalid(path, values, f"if '*' is present, must not specify other {called}")


def _resource_problems(rule: Body, path: str) -> Iterator[FieldError]:
    yield from _verb_problems(rule, path)
    for name, one, called in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        values = rule.get(name) or []
        if not values:
            yield required(f"{path}.{name}", f"resource rules must supply at least one {one}")
        yield from _star_problems(values, f"{path}.{name}", called)
    namespaces = rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        yield required(f"{path}.namespaces", text)
    elif "*" in namespaces:
        yield from _star_problems(namespaces, f"{path}.namespaces", "namespaces")
    else:
        for at, name in enumerate(namespaces):
            for error in label_errors(name):
                text = f"each member of this list must be '*' or a DNS-1123 label; {error}"
                yield invalid(f"{path}.namespaces[{at}]", name, text)


def _path_problems(rule: Body, path: str) -> Iterator[FieldError]:
    yield from _verb_problems(rule, path)
    path, paths = f"{path}.nonResourceURLs", rule.get("nonResourceURLs") or []
    if not paths:
        yield required(path, "nonResourceURLs must contain at least one value")
    elif "*" in paths:
        yield from _star_problems(paths, path, "non-resource URLs")
    else:
        for at, one in enumerate(paths):
            fault = _path_fault(one)
            if fault:
                yield invalid(f"{path}[{at}]", one, fault)


def _path_fault(path: str) -> str:
    if not path:
        return "must not be empty"
    if not path.startswith("/"):
        return "must start with slash"
    if " " in path:
        return "must not contain white-space"
    if "//" in path:
        return "must not contain double slash"
    stars = path.count("*")
    return "wildcard can only do suffix matching" * (
        stars > 1 or (stars == 1 and not path.endswith("/*"))
    )
