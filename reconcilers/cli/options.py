"""Options that can be given as a flag or as an environment variable BUTLER_IPAM_<FLAG>."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

PREFIX = "BUTLER_IPAM_"


def envvar(flag: str) -> str:
    """Return the environment variable of a flag: `--webhook-port` is BUTLER_IPAM_WEBHOOK_PORT."""
    return PREFIX + flag.lstrip("-").replace("-", "_").upper()


def option(*declarations: str, **attributes: Any) -> Callable[[F], F]:
    """Return click's option decorator, with the environment variable of its long flag.

    Args:
        *declarations: the flags; the first long one names the variable.
        **attributes: what click.option takes. `envvar` may be given to name another variable.
    """
    long = next(flag for flag in declarations if flag.startswith("--"))
    # `--on/--off` is one declaration of click's for both flags.
    attributes.setdefault("envvar", envvar(long.partition("/")[0]))
    attributes.setdefault("show_envvar", True)
    attributes.setdefault("show_default", True)
    return click.option(*declarations, **attributes)
