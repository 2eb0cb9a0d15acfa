"""Checks that an argument has the expected type, with a message that says what to pass.

Python finds a mix-up late: with an AttributeError inside the framework, which names neither the
argument nor the call. arguments.py has the checks that know of kinds and objects.
"""

from controller.callbacks import safe_repr

_LONGEST_REPRESENTATION = 60
"""The characters of a value that a message shows; of a longer value it shows the type."""


def check_type(
    value: object, accepted: type | tuple[type, ...], argument: str, expected: str
) -> None:
    """Raise TypeError if an argument has none of the accepted types.

    Args:
        value: the argument, as the caller passed it.
        accepted: the type or the types that the value may have.
        argument: the call and the argument, for the message: `Manager: options`.
        expected: what to pass, for the message: `a ManagerOptions`.
    """
    if not isinstance(value, accepted):
        raise TypeError(f"{argument} must be {expected}, not {describe_value(value)}")


def describe_value(value: object) -> str:
    """Return the representation of a value if it is short, else the name of the value's type."""
    representation = safe_repr(value)
    if len(representation) <= _LONGEST_REPRESENTATION:
        return representation
    return f"a {type(value).__name__}"
