"""RuntimeClasses: what runs pods of a class, what that costs, and where it can be.

Texts and order follow the validation of node.k8s.io.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from typing_extensions import override

from envtest.builtins.shaped import ShapedRules, changed
from envtest.schema.errors import FieldError, duplicate, invalid, not_supported
from envtest.schema.names import label_errors, label_value_errors, qualified_name_errors
from envtest.server.objectmeta import Body

_OPERATORS: Final = ("Equal", "Exists")
_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")


class RuntimeClassRules(ShapedRules):
    """RuntimeClasses; the handler never changes."""

    conditional: ClassVar[bool] = True
    judged_whole: ClassVar[bool] = False

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        if old is not None:
            yield from changed(body, old, "handler")
            return
        for error in label_errors(body["handler"]):
            yield invalid("handler", body["handler"], error)
        scheduling = body.get("scheduling") or {}
        path = "scheduling.nodeSelector"
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            for error in qualified_name_errors(key):
                yield invalid(path, key, error)
            for error in label_value_errors(value):
                yield invalid(path, value, error)
        seen: list[tuple[str, ...]] = []
        for at, one in enumerate(scheduling.get("tolerations") or ()):
            yield from _toleration_problems(one, f"scheduling.tolerations[{at}]")
            key_ = tuple(one.get(name, "") for name in ("key", "operator", "value", "effect"))
            if key_ in seen:
                yield duplicate(f"scheduling.tolerations[{at}]", one)
            seen.append(key_)


def _toleration_problems(one: Body, path: str) -> Iterator[FieldError]:
    key, operator, value = (one.get(name, "") for name in ("key", "operator", "value"))
    for error in qualified_name_errors(key) if key else ():
        yield invalid(f"{path}.key", key, error)
    if not key and operator != "Exists":
        text = (
            'operator must be Exists when `key` is empty, which means "match all values and all '
            'keys"'
        )
        yield invalid(f"{path}.operator", operator, text)
    if "tolerationSeconds" in one and one.get("effect") != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{path}.effect", one.get("effect", ""), text)
    if operator not in {"", *_OPERATORS}:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    elif operator == "Exists":
        if value:
            text = "value must be empty when `operator` is 'Exists'"
            yield invalid(f"{path}.operator", one, text)
    else:
        for error in label_value_errors(value):
            yield invalid(f"{path}.operator", value, error)
    if one.get("effect") and one["effect"] not in _EFFECTS:
        yield not_supported(f"{path}.effect", one["effect"], _EFFECTS)
