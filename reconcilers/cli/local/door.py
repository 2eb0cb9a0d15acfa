"""The door to envtest, which only some commands need and a small installation may lack."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from reconcilers.cli.problems import Problem


def envtest() -> ModuleType:
    """Return the package, with what it needs.

    Raises:
        Problem: this installation lacks it.
    """
    try:
        import envtest as found
    except ImportError as missing:
        raise Problem(
            f"this installation has no API server ({missing}): install butler-ipam[envtest]"
        ) from missing
    return found


@contextmanager
def told() -> Iterator[None]:
    """Turn the ways in which an API server does not start into one sentence each.

    Raises:
        Problem: it did not start.
    """
    door = envtest()
    try:
        yield
    except (door.PlaneError, door.DiskError, door.ListenError, door.TokenFileError) as failure:
        raise Problem(str(failure)) from failure
