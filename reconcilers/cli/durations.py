"""Durations on the command line as Go and Kubernetes write them: 500ms, 10s, 1h30m; 10 is 10 s."""

import re

import click

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def duration(value: str | float) -> float:
    """Return seconds from an option's value.

    Raises:
        BadParameter: it is no duration.
    """
    if isinstance(value, int | float):
        return float(value)
    seconds = parse(value)
    if seconds is None:
        raise click.BadParameter(f"{value!r} is no duration: write 500ms, 10s, 5m or 1h30m")
    return seconds


def parse(text: str) -> float | None:
    """Return the seconds that `text` says, None if it is no duration."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not re.fullmatch(rf"(?:{_PART.pattern})+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def rendered(seconds: float) -> str:
    """Return the shortest text for `seconds`: 90 is 1m30s."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    whole, rest = divmod(seconds, 60)
    minutes = int(whole)
    parts = [(minutes // 60, "h"), (minutes % 60, "m"), (rest, "s")]
    return "".join(f"{number:g}{unit}" for number, unit in parts if number) or "0s"
