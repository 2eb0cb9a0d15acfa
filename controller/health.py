"""Checks behind /healthz and /readyz, and the text of these pages.

The pages are like the API server's: one line per check with `?verbose` or if a check fails,
`?exclude=NAME` leaves a check out, `/readyz/NAME` runs one check alone. The names of failing
checks are always shown. The reasons are shown only with `?verbose`: every pod of the cluster can
reach the port, and an error may quote what a server sent.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failing:
    """The result of a check that fails.

    Args:
        what: what does not work; always shown.
        why: the reason; shown with `?verbose`.
    """

    what: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A named check.

    Args:
        name: as in `/readyz/NAME`.
        run: returns None if the check passes. It is called at each probe, so it must be quick.
    """

    name: str
    run: Callable[[], Failing | None]


PING = Check("ping", lambda: None)
"""Passes as long as the event loop runs."""


@dataclass(frozen=True, slots=True)
class Report:
    """The response to a probe."""

    healthy: bool
    text: str


def report(
    page: str, checks: Iterable[Check], *, verbose: bool = False, exclude: Sequence[str] = ()
) -> Report:
    """Run all checks and return the text of the page.

    Args:
        page: the probe's name, for example `readyz`.
        checks: the checks to run.
        verbose: show all lines, and the reasons.
        exclude: names of checks that are not run.
    """
    results = [(check.name, check.run()) for check in checks if check.name not in exclude]
    healthy = all(failing is None for _, failing in results)
    if healthy and not verbose:
        return Report(True, "ok")
    lines = [_line(name, failing, verbose=verbose) for name, failing in results]
    lines.append(f"{page} check {'passed' if healthy else 'failed'}\n")
    return Report(healthy, "\n".join(lines))


def _line(name: str, failing: Failing | None, *, verbose: bool) -> str:
    if failing is None:
        return f"[+]{name} ok"
    why = failing.why if verbose and failing.why else "reason withheld"
    return f"[-]{name} failed: {failing.what}: {why}"
