"""Finds tracebacks in the logs of our programs: of bugs that a program survived."""

import re

_TRACEBACK = re.compile(r'Traceback|"exception":')
"""How a traceback begins in a log of console lines, and the field that has it in one of JSON."""
_BEFORE, _AFTER = 500, 5000
"""How many characters of the log are shown before a traceback begins, and from there on."""


def find_traceback(log: str) -> str:
    """Return the part of a log around its first traceback; empty if there is none."""
    begins = _TRACEBACK.search(log)
    if begins is None:
        return ""
    return log[max(0, begins.start() - _BEFORE) : begins.start() + _AFTER]
