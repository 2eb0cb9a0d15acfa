"""Shows the numbers that tests measured and do not judge, below the results of a run.

A test notes one by the fixture `record_property`, which pytest-xdist carries along.
"""

from collections.abc import Callable

import pytest

Note = Callable[[str, object], None]
"""What `record_property` is."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests noted."""
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
