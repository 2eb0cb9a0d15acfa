"""Is this process alive, and is it of use: named checks behind /healthz and /readyz.

The pages follow the API server's: one line per check with `?verbose` or when something fails,
`?exclude=NAME` leaves one out, `/readyz/NAME` asks one alone. What fails is always named, but
why it fails is told only with `?verbose`: the probes' port is open to everybody in the cluster,
and errors may quote what a server said.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failing:
    """A check that does not hold.

    Args:
        what: what does not work, in words anybody may read.
        why: the reason, for those who ask with `?verbose`.
    """

    what: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A named question.

    Args:
        name: as in `/readyz/NAME`.
        ask: returns None if all is well; called at each probe, so it must answer at once.
    """

    name: str
    ask: Callable[[], Failing | None]


PING = Check("ping", lambda: None)
"""Holds as long as the event loop can answer at all."""


@dataclass(frozen=True, slots=True)
class Report:
    """The answer to a probe: whether all is well, and the page."""

    healthy: bool
    text: str


def report(
    page: str, checks: Iterable[Check], *, verbose: bool = False, exclude: Sequence[str] = ()
) -> Report:
    """Ask all checks and describe what they say.

    Args:
        page: the probe's name, for example `readyz`.
        checks: what is asked.
        verbose: tell all lines, and the reasons.
        exclude: names of checks that are not asked.
    """
    results = [(check.name, check.ask()) for check in checks if check.name not in exclude]
    healthy = all(failing is None for _, failing in results)
    if healthy and not verbose:
        return Report(True, "ok")
    lines = [_line(name, failing, verbose=verbose) for name, failing in results]
    lines.append(f"{page} check {'passed' if healthy else 'failed'}\n")
    return Report(healthy, "\n".join(lines))


def asked(query: Mapping[str, Sequence[str]]) -> tuple[bool, Sequence[str]]:
    """Return what a probe's query asks for: verbose or not, and the excluded names."""
    return "verbose" in query, query.get("exclude", ())


def _line(name: str, failing: Failing | None, *, verbose: bool) -> str:
    if failing is None:
        return f"[+]{name} ok"
    why = failing.why if verbose and failing.why else "reason withheld"
    return f"[-]{name} failed: {failing.what}: {why}"
