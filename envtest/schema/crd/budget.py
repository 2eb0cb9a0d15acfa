"""What the rules of a schema may cost together: limits that a CRD has to keep.

Nothing is measured here. The estimates say what the largest object that the schema allows would
cost; a schema without limits of its own is limited by the size of a request alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from envtest.schema.cel.spans import LARGEST, capped_product
from envtest.schema.cel.types import REQUEST_SIZE
from envtest.schema.errors import FieldError, forbidden

RULE_LIMIT: Final = 10_000_000
SCHEMA_LIMIT: Final = 100_000_000
# So many of the most expensive rules are named when the sum is too high.
_NAMED: Final = 4


def below_count(schema: Mapping[str, Any], count: int | None) -> int | None:
    """How many values the parts of a node may describe; None where nothing limits it.

    Args:
        schema: the node.
        count: the same of the node itself.
    """
    kind = schema.get("type")
    limit: int | None = 1
    if kind == "object" and schema.get("additionalProperties") is not None:
        limit = schema.get("maxProperties")
    elif kind == "array":
        limit = schema.get("maxItems")
    if count is None or limit is None:
        return None
    return capped_product(count, max(int(limit), 0))


class Budget:
    """The costs of one schema's rules.

    Args:
        unchanged: whether the schema was accepted before; its rules may then be too expensive.
    """

    def __init__(self, *, unchanged: bool) -> None:
        self._unchanged = unchanged
        self._total = 0
        self._expensive: list[tuple[int, str]] = []

    def of_rule(self, once: int, count: int | None, least: int) -> int:
        """What a rule costs for a whole object.

        Args:
            once: what one evaluation costs.
            count: how many values it is evaluated for; None where only the request limits it.
            least: the fewest bytes that such a value takes.
        """
        return capped_product(once, REQUEST_SIZE // (least + 1) if count is None else count)

    def observe(self, path: str, cost: int, name: str) -> list[FieldError]:
        """Add an expression; tell if it is too expensive by itself."""
        self._total = min(self._total + cost, LARGEST)
        if cost >= SCHEMA_LIMIT // 100:
            self._expensive.append((cost, path))
            self._expensive.sort(key=lambda entry: -entry[0])
            del self._expensive[_NAMED:]
        if cost <= RULE_LIMIT or self._unchanged:
            return []
        return [forbidden(path, _exceeds(name, cost, RULE_LIMIT))]

    def errors(self, path: str) -> list[FieldError]:
        """Tell if the expressions are too expensive together."""
        if self._total <= SCHEMA_LIMIT:
            return []
        entire = "for entire OpenAPIv3 schema"
        whole = f"x-kubernetes-validations estimated rule cost total {entire}"
        share = f"contributed to estimated rule cost total exceeding cost limit {entire}"
        named = [forbidden(where, share) for _, where in self._expensive]
        return [*named, forbidden(path, _exceeds(whole, self._total, SCHEMA_LIMIT))]


def _exceeds(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{name} exceeds budget by factor of {shown} (try simplifying the rule, or adding "
        "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
