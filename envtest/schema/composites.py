"""`anyOf`, `oneOf`, `allOf` and `not`.

Which branch's errors are shown when none or too many fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

from envtest.schema.errors import NO_FIELD, FieldError, invalid
from envtest.schema.gotext import quote


class Branch(Protocol):
    """A compiled branch, as far as this module uses it."""

    def check_afresh(self, value: Any, path: str, out: list[FieldError]) -> int:
        """Append errors, return the match count."""


class _Result:
    __slots__ = ("errors", "matched")

    def __init__(self, branch: Branch, value: Any, path: str) -> None:
        self.errors: list[FieldError] = []
        self.matched = branch.check_afresh(value, path, self.errors)


class Composites:
    """The composite parts of one schema node.

    Branches know of no old value: what is unchanged is forgiven by the node around them.
    """

    __slots__ = ("_all_of", "_any_of", "_not", "_one_of")

    def __init__(
        self,
        any_of: Sequence[Branch],
        one_of: Sequence[Branch],
        all_of: Sequence[Branch],
        not_: Branch | None,
    ) -> None:
        self._any_of = any_of
        self._one_of = one_of
        self._all_of = all_of
        self._not = not_

    @classmethod
    def compile(
        cls, schema: Mapping[str, Any], branch: Callable[[Mapping[str, Any]], Branch]
    ) -> Self | None:
        """The composites of `schema`, or None where it has none."""
        lists = [
            [branch(part) for part in schema.get(name) or ()]
            for name in ("anyOf", "oneOf", "allOf")
        ]
        negated = schema.get("not")
        if not any(lists) and negated is None:
            return None
        return cls(lists[0], lists[1], lists[2], None if negated is None else branch(negated))

    def check(self, value: Any, path: str, out: list[FieldError]) -> int:
        """Append errors, return the match count."""
        matched = 1
        if self._any_of:
            matched += self._check_any(value, path, out)
        if self._one_of:
            matched += self._check_one(value, path, out)
        if self._all_of:
            matched += self._check_all(value, path, out)
        if self._not is not None and not _Result(self._not, value, path).errors:
            out.append(_composite(f"{quote(path)} must not validate the schema (not)"))
        return matched

    def _check_any(self, value: Any, path: str, out: list[FieldError]) -> int:
        best: _Result | None = None
        for branch in self._any_of:
            result = _Result(branch, value, path)
            if not result.errors:
                return result.matched
            if best is None or result.matched > best.matched:
                best = result
        assert best is not None
        out.append(_composite(f"{quote(path)} must validate at least one schema (anyOf)"))
        out.extend(best.errors)
        return best.matched

    def _check_one(self, value: Any, path: str, out: list[FieldError]) -> int:
        results = [_Result(branch, value, path) for branch in self._one_of]
        valid = [result for result in results if not result.errors]
        if len(valid) == 1:
            return valid[0].matched
        found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        out.append(
            _composite(f"{quote(path)} must validate one and only one schema (oneOf). {found}")
        )
        if valid:
            return 0
        # Of equal counts the first one wins, as in the server.
        best = max(results, key=lambda result: result.matched)
        out.extend(best.errors)
        return best.matched

    def _check_all(self, value: Any, path: str, out: list[FieldError]) -> int:
        results = [_Result(branch, value, path) for branch in self._all_of]
        for result in results:
            out.extend(result.errors)
        valid = sum(1 for result in results if not result.errors)
        if valid != len(results):
            none = "" if valid else ". None validated"
            out.append(_composite(f"{quote(path)} must validate all the schemas (allOf){none}"))
        return sum(result.matched for result in results)


def _composite(detail: str) -> FieldError:
    return invalid(NO_FIELD, "", detail)
