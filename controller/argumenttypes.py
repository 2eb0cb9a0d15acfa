"""Checks that an argument has the type that is asked for, with a message that says what to pass.

Python finds a mix-up late: with an AttributeError inside the framework, which names neither the
argument nor the call. What has to be known of kinds and objects is checked in arguments.py.
"""

from controller.callbacks import safe_repr

_LONGEST_REPRESENTATION = 60
"""The characters of a value that a message shows; of a longer value it shows the type."""


def check_type(
    value: object, accepted: type | tuple[type, ...], argument: str, expected: str
) -> None:
    """Raise TypeError for an argument of another type.

    Args:
        value: as the caller passed it.
        accepted: the type, or the types, of which the value may be.
        argument: the call and the argument, for the message: `Manager: options`.
        expected: what to pass, for the message: `a ManagerOptions`.
    """
    if not isinstance(value, accepted):
        raise TypeError(f"{argument} must be {expected}, not {describe_value(value)}")


def describe_value(value: object) -> str:
    """Return the representation of a value where it is short, else the type of the value."""
    representation = safe_repr(value)
    if len(representation) <= _LONGEST_REPRESENTATION:
        return representation
    return f"a {type(value).__name__}"
