"""Which types fit where: assignability and type variables."""

from __future__ import annotations

from envtest.schema.cel.types import DYN, CelType

_ANY = frozenset({"dyn", "!error!", "_var0"})
Bindings = dict[str, CelType]
# Types that a plain null cannot stand for; objects and opaque values it can.
_NOT_NULL = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "optional_type", "string", "type", "uint"}
)


def is_variable(kind: CelType) -> bool:
    """Whether the type is a type variable of a signature."""
    return len(kind.name) == 1 and kind.name.isupper()


def fits(param: CelType, arg: CelType, bound: Bindings) -> bool:
    """Whether an argument of type `arg` can be passed for `param`; binds type variables."""
    if is_variable(param):
        return _bind(param.name, arg, bound)
    if param.name in _ANY or arg.name in _ANY:
        return True
    if "null" in {param.name, arg.name} and param.name != arg.name:
        other = arg if param.name == "null" else param
        return other.name not in _NOT_NULL
    if param.name != arg.name or len(param.params) != len(arg.params):
        # `type` without a parameter stands for any type of a type.
        return param.name == arg.name == "type"
    return all(fits(p, a, bound) for p, a in zip(param.params, arg.params, strict=True))


def _bind(name: str, arg: CelType, bound: Bindings) -> bool:
    held = bound.get(name)
    if held is None:
        bound[name] = arg
        return True
    if not fits(held, arg, {}):
        return False
    # Of two types that fit each other the vaguer one holds for both.
    bound[name] = _vaguer(held, arg)
    return True


def _vaguer(left: CelType, right: CelType) -> CelType:
    if "_var0" in {left.name, right.name}:
        return right if left.name == "_var0" else left
    if left.name in _ANY or right.name == "null":
        return left
    if right.name in _ANY or left.name == "null":
        return right
    if not left.params:
        return left
    return CelType(left.name, tuple(map(_vaguer, left.params, right.params)), keys=left.keys)


def substitute(kind: CelType, bound: Bindings) -> CelType:
    """The type with its variables replaced; what nothing was bound to is dyn."""
    if is_variable(kind):
        return bound.get(kind.name, DYN)
    if not kind.params:
        return kind
    return CelType(kind.name, tuple(substitute(param, bound) for param in kind.params))
