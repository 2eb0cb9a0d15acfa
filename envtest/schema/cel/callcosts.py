"""What calls cost at most, by function: the estimates of cel-go and of Kubernetes' own functions.

A unit is about the time of reading a field. Texts count a tenth of a unit for each character that
is gone through, regular expressions a quarter for each of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from envtest.schema.cel.spans import LARGEST, ONE, UNKNOWN, Span, exactly
from envtest.schema.cel.syntax import Const, Node
from envtest.schema.cel.types import CelType

TRAVERSAL: Final = 0.1
REGEX: Final = 0.25
LIST_CREATION: Final = 10
MAP_CREATION: Final = 30
FORMAT_REGEX: Final = 128


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument or the object of a method, as estimates see it.

    Attributes:
        node: its expression.
        kind: its type.
        size: how many characters or items it has; None where nothing tells.
        item_size: the same of its items, where the schema says what they are.
    """

    node: Node
    kind: CelType
    size: Span | None
    item_size: Span | None

    @property
    def bound(self) -> Span:
        """The size, without limit where nothing tells."""
        return UNKNOWN if self.size is None else self.size


class Estimate:
    """What one call costs besides its arguments, and how large its result is (None: unknown)."""

    __slots__ = ("cost", "size")

    def __init__(self, cost: Span, size: Span | None = None) -> None:
        self.cost = cost
        self.size = size


@dataclass(frozen=True, slots=True)
class Applied:
    """A call: its function, the parameters of the overload, and what it is called with."""

    name: str
    params: tuple[str, ...]
    target: Operand | None
    args: Sequence[Operand]

    @property
    def subject(self) -> Operand:
        """What a method is called on."""
        assert self.target is not None
        return self.target


Rule = Callable[[Applied], Estimate | None]


def estimate(call: Applied) -> Estimate:
    """What a call costs besides its arguments."""
    rule = _RULES.get(call.name)
    return (rule(call) if rule else None) or Estimate(ONE)


def _nominal(_: Applied) -> Estimate:
    return Estimate(ONE)


def _traversed(operand: Operand, factor: float = TRAVERSAL) -> Span:
    return operand.bound.scaled(factor)


def _ordered_items(call: Applied) -> Estimate | None:
    """Going through a list or a text once."""
    if call.target is None:
        return None
    if not call.target.kind.params:
        return Estimate(_traversed(call.target))
    each = ONE
    if call.target.kind.params[0].name in {"string", "bytes"}:
        item = UNKNOWN if call.target.item_size is None else call.target.item_size
        each = each.plus(item.scaled(TRAVERSAL))
    return Estimate(call.target.bound.times(each))


def _parsed(call: Applied) -> Estimate | None:
    """Reading a text as something: an address, a quantity, a version."""
    return None if call.target is not None else Estimate(_traversed(call.args[0]))


def _canonical(call: Applied) -> Estimate:
    return Estimate(_traversed(call.args[0], 2 * TRAVERSAL))


def _url(call: Applied) -> Estimate:
    return Estimate(_traversed(call.args[0]), call.args[0].bound)


def _same_length(call: Applied) -> Estimate:
    return Estimate(_traversed(call.subject), call.subject.bound)


def _replace(call: Applied) -> Estimate:
    size, old, new = call.subject.bound, call.args[0].bound, call.args[1].bound
    low = _replaced(size.low, longest=old.high, keeps=old.high <= new.low, by=new.low)
    high = _replaced(size.high, longest=old.low, keeps=new.high <= old.low, by=new.high)
    return Estimate(size.scaled(2 * TRAVERSAL), Span(min(low, LARGEST), min(high, LARGEST)))


def _replaced(size: int, *, longest: int, keeps: bool, by: int) -> int:
    if longest == 0:
        return size + (size + 1) * by
    return size if keeps else -(-size // longest) * by


def _split(call: Applied) -> Estimate:
    most = call.subject.bound.high
    if len(call.args) > 1 and isinstance(call.args[1].node, Const):
        limit = call.args[1].node.value
        most = limit if limit >= 0 else limit + 2**64
    return Estimate(_traversed(call.subject, 2 * TRAVERSAL), Span(0, most))


def _join(call: Applied) -> Estimate:
    count = call.subject.bound
    item = UNKNOWN if call.subject.item_size is None else call.subject.item_size
    size = count.times(item)
    if call.args:
        between = Span(max(count.low - 1, 0), max(count.high - 1, 0))
        size = size.plus(call.args[0].bound.times(between))
    return Estimate(size.scaled(TRAVERSAL), size)


def _search(call: Applied) -> Estimate:
    text = call.subject.bound
    cost = text.plus(ONE).scaled(TRAVERSAL).times(call.args[0].bound.scaled(REGEX))
    return Estimate(cost, Span(0, text.high))


def _contains_network(call: Applied) -> Estimate:
    size = Span(4, 16)
    cost = size.plus(size).scaled(TRAVERSAL)
    if call.name == "containsCIDR":
        cost = cost.plus(size.scaled(TRAVERSAL)).plus(ONE)
    if call.params[1] == "string":
        cost = cost.plus(_traversed(call.args[0]))
    return Estimate(cost)


def _validate_format(call: Applied) -> Estimate:
    return Estimate(_traversed(call.args[0]).scaled(FORMAT_REGEX * REGEX))


def _matches(call: Applied) -> Estimate | None:
    return None if call.target is None else Estimate(_search(call).cost)


def _contains(call: Applied) -> Estimate:
    return Estimate(_traversed(call.subject).times(_traversed(call.args[0])))


def _edge(call: Applied) -> Estimate:
    return Estimate(_traversed(call.args[0]))


def _in(call: Applied) -> Estimate | None:
    return Estimate(call.args[1].bound) if call.params[1] == "list" else None


def _added(call: Applied) -> Estimate | None:
    if call.params[0] not in {"string", "bytes", "list"} or call.params[0] != call.params[1]:
        return None
    size = call.args[0].bound.plus(call.args[1].bound)
    return Estimate(ONE if call.params[0] == "list" else size.scaled(TRAVERSAL), size)


def _compared(call: Applied) -> Estimate | None:
    """Comparing goes as far as the shorter side."""
    if call.name not in {"_==_", "_!=_"} and call.params[0] not in {"string", "bytes"}:
        return None
    left, right = call.args
    if call.name == "_==_" and left.kind.name == right.kind.name:
        if left.kind.name in {"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"}:
            return Estimate(ONE)
        if left.kind.name == "kubernetes.NamedFormat":
            return Estimate(Span(1, 64).scaled(TRAVERSAL))
    shorter = min(left.bound.high, right.bound.high)
    return Estimate(Span(1 if shorter else 0, shorter).scaled(TRAVERSAL))


def _to_bytes(call: Applied) -> Estimate | None:
    if call.params[0] != "string":
        return None
    size = call.args[0].bound
    return Estimate(size.scaled(TRAVERSAL), Span(size.low, min(size.high * 4, LARGEST)))


def _to_string(call: Applied) -> Estimate | None:
    if call.params[0] != "bytes":
        return None
    size = call.args[0].bound
    return Estimate(size.scaled(TRAVERSAL), Span(size.low // 4, size.high))


def _quoted(call: Applied) -> Estimate:
    size = call.args[0].bound
    longest = min(size.high * 2 + 2, LARGEST)
    return Estimate(size.scaled(TRAVERSAL), Span(size.low + 2, longest))


def _formatted(call: Applied) -> Estimate:
    return Estimate(_traversed(call.subject))


def _sets(factor: int) -> Rule:
    def rule(call: Applied) -> Estimate:
        pairs = call.args[0].bound.times(call.args[1].bound)
        return Estimate(pairs.scaled(factor).plus(ONE))

    return rule


def _made(factor: float, size: Span) -> Estimate:
    """A call that makes a list."""
    return Estimate(size.scaled(factor).plus(ONE).plus(exactly(LIST_CREATION)), size)


def _literal(operand: Operand, otherwise: int) -> int:
    node = operand.node
    if isinstance(node, Const) and type(node.value) is int:
        return max(node.value, 0)
    return otherwise


def _slice(call: Applied) -> Estimate:
    start = _literal(call.args[0], 0)
    end = _literal(call.args[1], call.subject.bound.high)
    return _made(1, exactly((end - start) % 2**64))


def _flattened(call: Applied) -> Estimate:
    depth = _literal(call.args[0], LARGEST) if call.args else 1
    return _made(depth, call.subject.bound)


def _self_compared(call: Applied) -> Estimate:
    return _made(2, call.subject.bound.times(call.subject.bound))


def sorting(size: Span, item: CelType) -> Estimate:
    """What sorting costs: every item against every other."""
    factor = 2 + TRAVERSAL if item.name in {"string", "bytes"} else 2
    return _made(factor, size.times(size))


def _sorted(call: Applied) -> Estimate:
    return sorting(call.subject.bound, CelType(call.params[0]))


_NOMINAL: Final = (
    # Who may do what.
    *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name"),
    *("allowed", "reason", "error", "errored"),
    # Addresses and networks.
    *("masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isGlobalUnicast"),
    *("isLinkLocalMulticast", "isLinkLocalUnicast"),
    # Quantities and versions.
    *("sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan"),
    *("compareTo", "add", "sub", "major", "minor", "patch"),
    # Formats and URLs.
    *("format.named", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath"),
    "getQuery",
)
_PARSING: Final = (
    *("cidr", "ip", "quantity", "semver"),
    *("isCIDR", "isIP", "isQuantity", "isSemver"),
)
_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_NOMINAL, _nominal),
    **dict.fromkeys(_PARSING, _parsed),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _ordered_items),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_length),
    **dict.fromkeys(("find", "findAll"), _search),
    **dict.fromkeys(("containsIP", "containsCIDR"), _contains_network),
    **dict.fromkeys(("startsWith", "endsWith"), _edge),
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _compared),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1)),
    "@in": _in,
    "_+_": _added,
    "bytes": _to_bytes,
    "check": lambda _: Estimate(exactly(350_000)),
    "contains": _contains,
    "distinct": _self_compared,
    "flatten": _flattened,
    "format": _formatted,
    "ip.isCanonical": _canonical,
    "join": _join,
    "lists.range": lambda call: _made(1, exactly(_literal(call.args[0], LARGEST))),
    "matches": _matches,
    "replace": _replace,
    "reverse": lambda call: _made(1, call.subject.bound),
    "sets.equivalent": _sets(2),
    "slice": _slice,
    "sort": _sorted,
    "split": _split,
    "string": _to_string,
    "strings.quote": _quoted,
    "url": _url,
    "validate": _validate_format,
}
