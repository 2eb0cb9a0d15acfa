"""Checks of LabelSelector objects, as apimachinery has them."""

from collections.abc import Iterator

from envtest.schema.errors import FieldError, forbidden, invalid, required
from envtest.schema.names import label_value_errors, qualified_name_errors
from envtest.server.objectmeta import Body


def selector_problems(selector: Body, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with a selector at a path."""
    for key, value in (selector.get("matchLabels") or {}).items():
        for error in qualified_name_errors(key):
            yield invalid(f"{path}.matchLabels", key, error)
        for error in label_value_errors(value):
            yield invalid(f"{path}.matchLabels", value, error)
    for at, one in enumerate(selector.get("matchExpressions") or ()):
        yield from _expression_problems(one, f"{path}.matchExpressions[{at}]")


def _expression_problems(one: Body, path: str) -> Iterator[FieldError]:
    operator, values = one.get("operator") or "", one.get("values") or ()
    if operator in {"In", "NotIn"}:
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{path}.values", text)
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(f"{path}.values", text)
    else:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    for error in qualified_name_errors(one.get("key") or ""):
        yield invalid(f"{path}.key", one.get("key") or "", error)
    for at, value in enumerate(values):
        for error in label_value_errors(value):
            yield invalid(f"{path}.values[{at}]", value, error)
