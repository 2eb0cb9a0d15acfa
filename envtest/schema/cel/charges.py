"""What calls did cost, by function, from the values that they were called with.

The counterpart of `callcosts`: the same rules, with sizes that are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from envtest.schema.cel.callcosts import LIST_CREATION, REGEX, TRAVERSAL
from envtest.schema.cel.functions import kind_of

Charge = Callable[[Sequence[Any], Any], int]
# How much of a regular expression each named format is.
_FORMATS: Final[Mapping[str, int]] = {
    "byte": 21,
    "date": 18,
    "datetime": 18,
    "dns1123Subdomain": 15,
    "dns1123SubdomainPrefix": 15,
    "labelValue": 10,
    "qualifiedName": 15,
    "uri": 276,
    "uuid": 18,
}
_FORMAT: Final = 8


def charge(name: str, args: Sequence[Any], result: Any) -> int:
    """What a call of a function cost.

    Args:
        name: the function.
        args: what it was called with; first of all, of a method, what it was called on.
        result: what it gave.
    """
    rule = _CHARGES.get(name)
    return 1 if rule is None else rule(args, result)


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    # Networks have the size of their prefix, addresses that of their bits.
    measure = getattr(value, "cel_size", None)
    return 1 if measure is None else int(measure)


def _part(size: float, factor: float = TRAVERSAL) -> int:
    return math.ceil(size * factor)


def _traversal(value: Any) -> int:
    """Going through a value with all its parts."""
    if isinstance(value, str):
        return int(len(value.encode()) * TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        return sum(map(_traversal, value))
    if isinstance(value, dict):
        return sum(_traversal(key) + _traversal(item) for key, item in value.items())
    return 1


def _first(args: Sequence[Any], _: Any) -> int:
    return _part(_size(args[0]))


def _twice(args: Sequence[Any], _: Any) -> int:
    return _part(2 * _size(args[0]))


def _parsed(args: Sequence[Any], _: Any) -> int:
    return _part(_size(args[0])) if isinstance(args[0], str) else 1


def _joined(_: Sequence[Any], result: Any) -> int:
    return _part(2 * _size(result))


def _searched(args: Sequence[Any], _: Any) -> int:
    return _part(1 + _size(args[0])) * _part(_size(args[1]), REGEX)


def _contained(args: Sequence[Any], _: Any) -> int:
    return _part(_size(args[0])) * _part(_size(args[1]))


def _in(args: Sequence[Any], _: Any) -> int:
    return _size(args[1]) if isinstance(args[1], list) else 1


def _compared(args: Sequence[Any], _: Any) -> int:
    left, right = args
    if kind_of(left) in {"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"}:
        return 1
    return _part(min(_size(left), _size(right)))


def _ordered(args: Sequence[Any], result: Any) -> int:
    texts = isinstance(args[0], str | bytes) and isinstance(args[1], str | bytes)
    return _compared(args, result) if texts else 1


def _added(args: Sequence[Any], _: Any) -> int:
    if isinstance(args[0], str | bytes):
        return _part(_size(args[0]) + _size(args[1]))
    return 1


def _network(args: Sequence[Any], _: Any) -> int:
    cost = _part(2 * _size(args[0]))
    return cost + (_part(_size(args[1])) if isinstance(args[1], str) else 0)


def _subnet(args: Sequence[Any], result: Any) -> int:
    return _network(args, result) + _part(_size(args[0])) + 1


def _validated(args: Sequence[Any], _: Any) -> int:
    return _part(1 + _size(args[1])) * _FORMATS.get(args[0].name, _FORMAT)


def _converted(kind: type) -> Charge:
    return lambda args, _: _part(_size(args[0])) if isinstance(args[0], kind) else 1


def _pairs(factor: int) -> Charge:
    return lambda args, _: _size(args[0]) * _size(args[1]) * factor + 1


def _made(size: float) -> int:
    return int(size) + 1 + LIST_CREATION


def _self_compared(args: Sequence[Any], _: Any) -> int:
    items = args[0]
    factor = 2 + TRAVERSAL if items and isinstance(items[0], str | bytes) else 2
    return _made(len(items) * len(items) * factor)


def _flattened(args: Sequence[Any], _: Any) -> int:
    return _made(_size(args[0]) * (args[1] if len(args) > 1 else 1))


def _listed(_: Sequence[Any], result: Any) -> int:
    return _made(_size(result))


_CHARGES: Final[Mapping[str, Charge]] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"),
        lambda args, _: _traversal(args[0]),
    ),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _first),
    **dict.fromkeys(("startsWith", "endsWith", "strings.quote", "format"), _first),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _twice),
    **dict.fromkeys(("find", "findAll", "matches"), _searched),
    **dict.fromkeys(("cidr", "ip", "isCIDR", "isIP", "quantity", "isQuantity"), _parsed),
    **dict.fromkeys(("semver", "isSemver"), _parsed),
    **dict.fromkeys(("_==_", "_!=_"), _compared),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _ordered),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _pairs(1)),
    **dict.fromkeys(("distinct", "sort", "@sortByAssociatedKeys"), _self_compared),
    **dict.fromkeys(("lists.range", "reverse", "slice"), _listed),
    "@in": _in,
    "_+_": _added,
    "bytes": _converted(str),
    "check": lambda _args, _: 350_000,
    "contains": _contained,
    "containsCIDR": _subnet,
    "containsIP": _network,
    "flatten": _flattened,
    "join": _joined,
    "sets.equivalent": _pairs(2),
    "string": _converted(bytes),
    "validate": _validated,
}
