"""CEL expressions, by a library: rules of custom resources, and match conditions of webhooks.

The library has the language, functions on strings, and optional values. This module adds some of
Kubernetes' functions: those on IP addresses and networks, isSorted and sum. An expression that
calls another function is refused, with a message that names these limits. Unlike in
kube-apiserver, an expression has no cost limit, and lists of type set and map are compared
including their order.
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
from envtest.schema.celtypes import RESERVED, CelTypes

_Type = cel.Type
_IP: Final = _Type.AbstractType("net.IP")
_CIDR: Final = _Type.AbstractType("net.CIDR")
_LITERAL: Final = r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_OLD_SELF: Final = re.compile(rf"{_LITERAL}|(?<![.\w])(oldSelf)\b", re.DOTALL)
_UNDEFINED: Final = re.compile(r"undefined field '(\w+)'")
_CODED: Final = re.compile(r"[A-Z_]+: (.*?)(?: \[[A-Z_]+\])?", re.DOTALL)
# The library's own words for a rule that reads a missing field.
_NO_KEY: Final = re.compile(r'Key not found in map : "(.*)"', re.DOTALL)
_KNOWN_FUNCTIONS: Final = (
    "; the embedded server knows the functions of CEL, of its libraries of texts and optional "
    "values, and of Kubernetes' own ip, isIP, cidr, isCIDR, their methods, isSorted, and sum of "
    "integers"
)


class CelError(Exception):
    """An expression that cannot be compiled or evaluated."""


def _strip_code(error: object) -> str:
    """Return the message of a library error, without the status code around it."""
    match = _CODED.fullmatch(str(error))
    return match[1] if match else str(error)


def _parse_address(literal: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an IP address by Kubernetes' rules.

    Raises:
        ValueError: it cannot be parsed, has a zone, or is an IPv4-mapped IPv6 address.
    """
    address = ipaddress.ip_address(literal)
    if "%" in literal or (address.version == 6 and address.ipv4_mapped is not None):
        raise ValueError(f"{literal!r} is not an IP address that rules accept")
    return address


def _parse_network(literal: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """Parse a network; the address keeps its host bits.

    Raises:
        ValueError: it cannot be parsed, or its prefix length has leading zeros.
    """
    address, _, length = literal.partition("/")
    # Called for the ValueError of addresses that only Python accepts.
    _parse_address(address)
    if not (length.isascii() and length.isdigit() and str(int(length)) == length):
        raise ValueError(f"{literal!r} is not a CIDR")
    return ipaddress.ip_interface(literal)


def _build_validity_check(read: Callable[[str], object]) -> Callable[[str], bool]:
    """Return a function that says whether `read` accepts a literal."""

    def is_valid(literal: str) -> bool:
        """Return whether the literal can be read."""
        try:
            read(literal)
        except ValueError:
            return False
        return True

    return is_valid


def _contains_ip(cidr: str, address: str) -> bool:
    """Return whether an address lies in a network."""
    return _parse_address(address) in _parse_network(cidr).network


def _contains_cidr(cidr: str, other: str) -> bool:
    """Return whether another network lies in a network."""
    outer, inner = _parse_network(cidr).network, _parse_network(other)
    return inner.ip in outer and inner.network.prefixlen >= outer.prefixlen


# Name, whether it is a method, argument types, result type, implementation.
_Function = tuple[str, bool, tuple[Any, ...], Any, Callable[..., Any]]
_FUNCTIONS: Final[tuple[_Function, ...]] = (
    ("isSorted", True, (_Type.List(_Type.DYN),), _Type.BOOL, lambda items: items == sorted(items)),
    ("sum", True, (_Type.List(_Type.INT),), _Type.INT, sum),
    ("isIP", False, (_Type.STRING,), _Type.BOOL, _build_validity_check(_parse_address)),
    ("isCIDR", False, (_Type.STRING,), _Type.BOOL, _build_validity_check(_parse_network)),
    ("ip", False, (_Type.STRING,), _IP, lambda literal: str(_parse_address(literal))),
    ("ip", True, (_CIDR,), _IP, lambda cidr: str(_parse_network(cidr).ip)),
    ("family", True, (_IP,), _Type.INT, lambda address: _parse_address(address).version),
    ("cidr", False, (_Type.STRING,), _CIDR, lambda literal: str(_parse_network(literal))),
    (
        "prefixLength",
        True,
        (_CIDR,),
        _Type.INT,
        lambda cidr: _parse_network(cidr).network.prefixlen,
    ),
    ("masked", True, (_CIDR,), _CIDR, lambda cidr: str(_parse_network(cidr).network)),
    ("containsIP", True, (_CIDR, _Type.STRING), _Type.BOOL, _contains_ip),
    ("containsIP", True, (_CIDR, _IP), _Type.BOOL, _contains_ip),
    ("containsCIDR", True, (_CIDR, _Type.STRING), _Type.BOOL, _contains_cidr),
    ("containsCIDR", True, (_CIDR, _CIDR), _Type.BOOL, _contains_cidr),
)


@functools.cache
def _declare_functions(*, checked: bool) -> list[Any]:
    """Return the declarations of the functions in `_FUNCTIONS`.

    Args:
        checked: whether expressions are type-checked with them. Then addresses and networks have
            types of their own. For evaluation they are strings, because Python code cannot create
            values of such types.
    """
    overloads: dict[str, dict[str, Any]] = {}
    for name, is_member, parameters, result, run in _FUNCTIONS:
        types = [*parameters, result]
        if not checked:
            types = [_Type.STRING if cel_type in (_IP, _CIDR) else cel_type for cel_type in types]
        # Unchecked, two overloads may have the same types; then the later one is enough.
        overload_id = f"{name}_{is_member}_{'_'.join(cel_type.name() for cel_type in types)}"
        overload = cel.Overload(overload_id, types[-1], types[:-1], is_member=is_member, impl=run)
        overloads.setdefault(name, {})[overload_id] = overload
    return [
        cel.FunctionDecl(name, list(variants.values())) for name, variants in overloads.items()
    ]


def _create_environment(
    variables: Mapping[str, Any], pool: Any = None, *, checked: bool = True
) -> Any:
    """Return an environment, in which expressions are compiled.

    Args:
        variables: the types of the variables by name.
        pool: the protocol buffer messages that those types consist of; None for the library's own.
        checked: whether expressions are type-checked, as in `_declare_functions`.
    """
    extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    functions = _declare_functions(checked=checked)
    return cel.NewEnv(pool, variables=variables, extensions=extensions, functions=functions)


@functools.cache
def _get_evaluation_environment() -> Any:
    """Return the environment without variables, in which expressions are compiled to run."""
    return _create_environment({}, checked=False)


@remember_results(1024)
def _compile_expression(source: str) -> Any:
    """Compile an expression, without a type check.

    Cached, because each server that a test process starts compiles the same expressions.

    Raises:
        CelError: it cannot be parsed.
    """
    try:
        return _get_evaluation_environment().compile(source, disable_check=True)
    except RuntimeError as error:
        raise CelError(_strip_code(error)) from error


class Program:
    """A compiled expression."""

    __slots__ = ("_expression",)

    def __init__(self, source: str) -> None:
        """Compile an expression.

        Raises:
            CelError: it cannot be parsed.
        """
        self._expression = _compile_expression(source)

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Return the value of the expression.

        Raises:
            CelError: the evaluation fails, for example because a field is missing.
        """
        result = self._expression.eval(data=variables)
        if result.type() == _Type.ERROR:
            # kube-apiserver words a missing field differently.
            raise CelError(_NO_KEY.sub(r"no such key: \1", _strip_code(result.plain_value())))
        return result.plain_value()


def reads_old_self(source: str) -> bool:
    """Return whether a rule reads oldSelf, outside of string literals."""
    return any(match[1] for match in _OLD_SELF.finditer(source))


def rewrite_optional_old(source: str) -> str:
    """Rewrite a rule with an optional oldSelf to read it as `old[?'self']`.

    Python code cannot pass an optional value to the library. So the caller passes a map `old`,
    which is empty if there is no old value.
    """
    return _OLD_SELF.sub(lambda match: "old[?'self']" if match[1] else match[0], source)


class Checker:
    """Type-checks the expressions of one schema node."""

    def __init__(self, schema: Mapping[str, Any], *, root: bool) -> None:
        """Derive the types of a node.

        Args:
            schema: the schema of the node.
            root: whether the node is a whole object, whose apiVersion, kind and names rules see.
        """
        self._types = CelTypes(schema, root=root)
        # Whether oldSelf is optional -> the environment, created once because that takes longer
        # than checking a rule.
        self._environments: dict[bool, Any] = {}

    @property
    def has_type(self) -> bool:
        """Whether the schema has a type; only then can the node have rules."""
        return self._types.type is not None

    def find_rule_failure(self, source: str, *, optional_old: bool) -> str:
        """Return why a rule does not compile; empty if it does."""
        message = "cel expression must evaluate to a bool"
        return self._find_failure(source, _Type.BOOL, message, optional_old=optional_old)

    def find_message_failure(self, source: str, *, optional_old: bool) -> str:
        """Return why an expression for a message does not compile; empty if it does."""
        message = "must evaluate to a string"
        return self._find_failure(source, _Type.STRING, message, optional_old=optional_old)

    def _find_failure(
        self, source: str, expected_type: Any, wrong_type_message: str, *, optional_old: bool
    ) -> str:
        """Return why an expression of this node does not compile; empty if it does.

        Args:
            source: the expression.
            expected_type: the type that its value must have.
            wrong_type_message: the message for a value of another type.
            optional_old: whether oldSelf is an optional value.
        """
        if optional_old not in self._environments:
            cel_type = self._types.type
            old = (
                {"old": _Type.Map(_Type.STRING, cel_type)}
                if optional_old
                else {"oldSelf": cel_type}
            )
            environment = _create_environment({"self": cel_type, **old}, self._types.pool)
            self._environments[optional_old] = environment
        if optional_old:
            source = rewrite_optional_old(source)
        return _find_compile_failure(
            self._environments[optional_old],
            source,
            expected_type=expected_type,
            wrong_type_message=wrong_type_message,
        )


def _find_compile_failure(
    environment: Any, source: str, expected_type: Any, wrong_type_message: str
) -> str:
    """Return why an expression does not compile; empty if it does.

    Args:
        environment: the declarations of variables and functions.
        source: the expression.
        expected_type: the type that its value must have.
        wrong_type_message: the message for a value of another type; {} stands for that type.
    """
    try:
        result_type = environment.compile(source).return_type()
    except RuntimeError as error:
        message = _strip_code(error)
        if "undeclared reference" in message:
            message += _KNOWN_FUNCTIONS
        for name in _UNDEFINED.findall(message):
            if name in RESERVED:
                message += f"; CEL reserves the word {name}: write __{name}__"
        return f"compilation failed: {message}"
    # The type of a dynamic value is only known when it is evaluated.
    if result_type in (expected_type, _Type.DYN):
        return ""
    return wrong_type_message.format(result_type.name().lower())


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """A match condition; if it does not compile, `program` is None and `failure` says why."""

    expression: str
    program: Program | None
    failure: str = ""


@functools.cache
def _get_condition_environment() -> Any:
    """Return the environment with the variables of match conditions, whose types are dynamic."""
    variable_names = ("object", "oldObject", "request", "namespaceObject")
    return _create_environment(dict.fromkeys(variable_names, _Type.DYN))


@functools.lru_cache(maxsize=256)
def compile_condition(expression: str) -> MatchCondition:
    """Compile a match condition; if that fails, the result has the error."""
    wrong_type_message = "must evaluate to bool but got {}"
    failure = _find_compile_failure(
        _get_condition_environment(),
        expression,
        expected_type=_Type.BOOL,
        wrong_type_message=wrong_type_message,
    )
    return MatchCondition(expression, None if failure else Program(expression), failure)
