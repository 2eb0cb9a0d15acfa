"""Checks behind /healthz and /readyz, and the text of these pages.

The pages are like the API server's: one line per check with `?verbose` or if a check fails,
`?exclude=NAME` leaves a check out, `/readyz/NAME` runs one check alone. The names of failing
checks are always shown. The reasons are shown only with `?verbose`: every pod of the cluster can
reach the port, and an error may quote what a server sent.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from controller.callbacks import call_plain, check_plain, name_function, safe_repr
from controller.loggers import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Failing:
    """The result of a check that fails.

    Args:
        problem: what does not work; always shown.
        why: the reason; shown with `?verbose`.
    """

    problem: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A named check.

    Args:
        name: as in `/readyz/NAME`.
        run: returns None if the check passes. It is called at each probe, so it must be quick.
            A check that raises, or returns anything else, fails.

    Raises:
        TypeError: `run` is async or cannot be called.
    """

    name: str
    run: Callable[[], Failing | None]

    def __post_init__(self) -> None:
        check_plain(self.run, f"the check {self.name}")


PING = Check("ping", lambda: None)
"""Passes as long as the event loop runs."""


@dataclass(frozen=True, slots=True)
class Report:
    """The response to a probe: whether all checks pass, and the text of the page."""

    is_healthy: bool
    body: str


def run_checks(
    page: str, checks: Iterable[Check], *, verbose: bool = False, exclude: Sequence[str] = ()
) -> Report:
    """Run the checks; return whether all pass, and the text of the page.

    The text is `ok` if all pass, else a line for each check that was run.

    Args:
        page: the probe's name, for example `readyz`.
        checks: the checks to run.
        verbose: show the lines also if all pass, and the reasons of failures.
        exclude: names of checks that are not run.
    """
    results = [(check.name, _run_check(check)) for check in checks if check.name not in exclude]
    is_healthy = all(failing is None for _, failing in results)
    if is_healthy and not verbose:
        return Report(is_healthy=True, body="ok")
    lines = [_format_line(name, failing, verbose=verbose) for name, failing in results]
    lines.append(f"{page} check {'passed' if is_healthy else 'failed'}\n")
    return Report(is_healthy, "\n".join(lines))


def _run_check(check: Check) -> Failing | None:
    """Return the result of a check; a Failing if it raises or returns anything else.

    A check of a user must not end the probe, and a wrong result must not pass for healthy.
    """
    try:
        result: object = call_plain(check.run)
    except Exception as error:
        log.exception("health check raised", check=check.name)
        return Failing("the check raised", safe_repr(error))
    if result is None or isinstance(result, Failing):
        return result
    why = f"{name_function(check.run)} returned {safe_repr(result)}: return None or a Failing"
    return Failing("the check returned a wrong result", why)


def _format_line(name: str, failing: Failing | None, *, verbose: bool) -> str:
    """Return the line of a check; the reason of a failure only with `verbose`."""
    if failing is None:
        return f"[+]{name} ok"
    why = failing.why if verbose and failing.why else "reason withheld"
    return f"[-]{name} failed: {failing.problem}: {why}"
