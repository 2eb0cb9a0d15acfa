"""CEL by a library: rules of custom resources, and match conditions of webhooks.

The library brings the language, its texts and its optional values. Of what Kubernetes adds, the
functions on IP addresses and networks, isSorted and sum are here; an expression that calls others
is refused, with a sentence that says so. Nothing limits what an expression may cost, and lists of
type set and map are compared with their order.
"""

import functools
import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from envtest.memo import remember_results
from envtest.schema.celtypes import RESERVED, Types

_Type = cel.Type
_IP: Final = _Type.AbstractType("net.IP")
_CIDR: Final = _Type.AbstractType("net.CIDR")
_LITERAL: Final = r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_OLD: Final = re.compile(rf"{_LITERAL}|(?<![.\w])(oldSelf)\b", re.DOTALL)
_UNDEFINED: Final = re.compile(r"undefined field '(\w+)'")
_CODED: Final = re.compile(r"[A-Z_]+: (.*?)(?: \[[A-Z_]+\])?", re.DOTALL)
# The library's own words for a rule that reads a missing field.
_NO_KEY: Final = re.compile(r'Key not found in map : "(.*)"', re.DOTALL)
_KNOWN: Final = (
    "; the embedded server knows the functions of CEL, of its libraries of texts and optional "
    "values, and of Kubernetes' own ip, isIP, cidr, isCIDR, their methods, isSorted, and sum of "
    "integers"
)


class CelError(Exception):
    """An expression that does not compile, or that has no value."""


def _message(error: object) -> str:
    """Return an error of the library without the code that stands around it."""
    match = _CODED.fullmatch(str(error))
    return match[1] if match else str(error)


def _address(literal: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address.

    Raises:
        ValueError: it is none, has a zone, or is an IPv4 address written as one of IPv6.
    """
    address = ipaddress.ip_address(literal)
    if "%" in literal or (address.version == 6 and address.ipv4_mapped is not None):
        raise ValueError(f"{literal!r} is not an IP address that rules accept")
    return address


def _interface(literal: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """Return a network with the address that it was written with.

    Raises:
        ValueError: it is none.
    """
    address, _, length = literal.partition("/")
    _address(address)
    if not (length.isascii() and length.isdigit() and str(int(length)) == length):
        raise ValueError(f"{literal!r} is not a CIDR")
    return ipaddress.ip_interface(literal)


def _is(read: Callable[[str], object]) -> Callable[[str], bool]:
    def is_valid(literal: str) -> bool:
        try:
            read(literal)
        except ValueError:
            return False
        return True

    return is_valid


def _contains_ip(cidr: str, address: str) -> bool:
    return _address(address) in _interface(cidr).network


def _contains_cidr(cidr: str, other: str) -> bool:
    outer, inner = _interface(cidr).network, _interface(other)
    return inner.ip in outer and inner.network.prefixlen >= outer.prefixlen


# Name, whether it is a method, types of its arguments, of its result, and what it does.
_Function = tuple[str, bool, tuple[Any, ...], Any, Callable[..., Any]]
_FUNCTIONS: Final[tuple[_Function, ...]] = (
    ("isSorted", True, (_Type.List(_Type.DYN),), _Type.BOOL, lambda items: items == sorted(items)),
    ("sum", True, (_Type.List(_Type.INT),), _Type.INT, sum),
    ("isIP", False, (_Type.STRING,), _Type.BOOL, _is(_address)),
    ("isCIDR", False, (_Type.STRING,), _Type.BOOL, _is(_interface)),
    ("ip", False, (_Type.STRING,), _IP, lambda literal: str(_address(literal))),
    ("ip", True, (_CIDR,), _IP, lambda cidr: str(_interface(cidr).ip)),
    ("family", True, (_IP,), _Type.INT, lambda address: _address(address).version),
    ("cidr", False, (_Type.STRING,), _CIDR, lambda literal: str(_interface(literal))),
    ("prefixLength", True, (_CIDR,), _Type.INT, lambda cidr: _interface(cidr).network.prefixlen),
    ("masked", True, (_CIDR,), _CIDR, lambda cidr: str(_interface(cidr).network)),
    ("containsIP", True, (_CIDR, _Type.STRING), _Type.BOOL, _contains_ip),
    ("containsIP", True, (_CIDR, _IP), _Type.BOOL, _contains_ip),
    ("containsCIDR", True, (_CIDR, _Type.STRING), _Type.BOOL, _contains_cidr),
    ("containsCIDR", True, (_CIDR, _CIDR), _Type.BOOL, _contains_cidr),
)


@functools.cache
def _declare_functions(*, checked: bool) -> list[Any]:
    """Return the declarations of our functions.

    A value of a type of its own cannot be made in Python, so where expressions are evaluated
    addresses and networks are texts; where they are checked they are not.
    """
    overloads: dict[str, dict[str, Any]] = {}
    for name, member, parameters, result, run in _FUNCTIONS:
        kinds = [*parameters, result]
        if not checked:
            kinds = [_Type.STRING if kind in (_IP, _CIDR) else kind for kind in kinds]
        number = f"{name}_{member}_{'_'.join(kind.name() for kind in kinds)}"
        overload = cel.Overload(number, kinds[-1], kinds[:-1], is_member=member, impl=run)
        overloads.setdefault(name, {})[number] = overload
    return [
        cel.FunctionDecl(name, list(variants.values())) for name, variants in overloads.items()
    ]


def _environment(variables: Mapping[str, Any], pool: Any = None, *, checked: bool = True) -> Any:
    extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    functions = _declare_functions(checked=checked)
    return cel.NewEnv(pool, variables=variables, extensions=extensions, functions=functions)


@functools.cache
def _evaluating() -> Any:
    return _environment({}, checked=False)


@remember_results(1024)
def _expression(source: str) -> Any:
    """Compile an expression; each server that a process starts asks for those of the same kinds.

    Raises:
        CelError: it is none.
    """
    try:
        return _evaluating().compile(source, disable_check=True)
    except RuntimeError as error:
        raise CelError(_message(error)) from error


class Program:
    """An expression, ready to be evaluated any number of times."""

    __slots__ = ("_expression",)

    def __init__(self, source: str) -> None:
        """Read an expression.

        Raises:
            CelError: it is none.
        """
        self._expression = _expression(source)

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Return the value.

        Raises:
            CelError: it has none.
        """
        result = self._expression.eval(data=variables)
        if result.type() == _Type.ERROR:
            raise CelError(_NO_KEY.sub(r"no such key: \1", _message(result.plain_value())))
        return result.plain_value()


def reads_old(source: str) -> bool:
    """Return whether a rule compares with the old value."""
    return any(match[1] for match in _OLD.finditer(source))


def with_optional_old(source: str) -> str:
    """Return a rule whose oldSelf is optional: the library takes no such values from Python."""
    return _OLD.sub(lambda match: "old[?'self']" if match[1] else match[0], source)


class Checker:
    """Evaluates the expressions of one schema node."""

    def __init__(self, schema: Mapping[str, Any], *, root: bool) -> None:
        """Describe a node.

        Args:
            schema: the node.
            root: whether it is a whole object's, so that apiVersion, kind and names are visible.
        """
        self._types = Types(schema, root=root)
        # By whether the old value is optional. To make one, and what it works out for the first
        # rule, takes longer than the rule.
        self._environments: dict[bool, Any] = {}

    @property
    def typed(self) -> bool:
        """Whether the schema has a type, without which a node can have no rules."""
        return self._types.type is not None

    def rule_failure(self, source: str, *, optional_old: bool) -> str:
        """Return why a rule does not compile, or ""."""
        said = "cel expression must evaluate to a bool"
        return self._failure(source, _Type.BOOL, said, optional_old=optional_old)

    def message_failure(self, source: str, *, optional_old: bool) -> str:
        """Return why an expression for a message does not compile, or ""."""
        said = "must evaluate to a string"
        return self._failure(source, _Type.STRING, said, optional_old=optional_old)

    def _failure(
        self, source: str, expected_type: Any, otherwise: str, *, optional_old: bool
    ) -> str:
        if optional_old not in self._environments:
            kind = self._types.type
            old = {"old": _Type.Map(_Type.STRING, kind)} if optional_old else {"oldSelf": kind}
            environment = _environment({"self": kind, **old}, self._types.pool)
            self._environments[optional_old] = environment
        if optional_old:
            source = with_optional_old(source)
        return _compile_failure(
            self._environments[optional_old],
            source,
            expected_type=expected_type,
            otherwise=otherwise,
        )


def _compile_failure(environment: Any, source: str, expected_type: Any, otherwise: str) -> str:
    """Return why an expression does not compile, or "".

    Args:
        environment: declares the variables and functions that it may use.
        source: the expression.
        expected_type: the type that its value must have.
        otherwise: the message for a value of another type; {} stands for that type.
    """
    try:
        result_type = environment.compile(source).return_type()
    except RuntimeError as error:
        said = _message(error)
        if "undeclared reference" in said:
            said += _KNOWN
        for name in _UNDEFINED.findall(said):
            if name in RESERVED:
                said += f"; CEL reserves the word {name}: write __{name}__"
        return f"compilation failed: {said}"
    if result_type in (expected_type, _Type.DYN):
        return ""
    return otherwise.format(result_type.name().lower())


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """A match condition; `program` is None where it does not compile, which `failure` explains."""

    expression: str
    program: Program | None
    failure: str = ""


@functools.cache
def _conditions() -> Any:
    known = ("object", "oldObject", "request", "namespaceObject")
    return _environment(dict.fromkeys(known, _Type.DYN))


@functools.lru_cache(maxsize=256)
def compile_condition(expression: str) -> MatchCondition:
    """Compile a match condition; if that fails, the result holds the error."""
    otherwise = "must evaluate to bool but got {}"
    failure = _compile_failure(
        _conditions(), expression, expected_type=_Type.BOOL, otherwise=otherwise
    )
    return MatchCondition(expression, None if failure else Program(expression), failure)
