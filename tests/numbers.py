"""Prints numbers that tests measured and do not assert, below the results of a run.

A test records a number by the fixture `record_property`, which works with pytest-xdist, too.
"""

from collections.abc import Callable

import pytest

Note = Callable[[str, object], None]
"""The type of the fixture `record_property`."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the numbers that tests have recorded."""
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    noted = [
        (report.nodeid.rpartition("::")[2], *number)
        for report in reports
        if report.when == "call"
        for number in report.user_properties
    ]
    if noted:
        terminalreporter.section("numbers")
    for test, name, number in sorted(noted):
        terminalreporter.write_line(f"{name}: {number}  ({test})")
