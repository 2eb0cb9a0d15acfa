"""What holds for every test: it leaves nothing behind (hygiene.py), and CI repeats itself.

Programs that tests start receive Ctrl-C, also if the tests run in the background. Numbers that
tests measured are shown in the end (numbers.py).
"""

import os
import signal
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests import forkserver
from tests.hygiene import (
    pytest_collection_finish,
    pytest_configure,
    pytest_fixture_post_finalizer,
    pytest_fixture_setup,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_unconfigure,
)
from tests.numbers import pytest_terminal_summary

# No test fails by the time that it takes: on a busy machine an example takes ten times as long.
# CI tries the same examples each time; everywhere else hypothesis looks for new ones.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# No test meets a server outside of this machine. aiohttp reads the system's authorities when it is
# imported: a tenth of the CPU time of each of our processes that a test starts. This is one
# authority, which has signed nothing; none at all would be an error to httpx.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "data" / "authority.pem")

# kubectl and helm end before a garbage collection pays: without any, and on one processor, a start
# takes a quarter less CPU time. The limit is for what runs on. Real servers are left as they are.
if not os.environ.get("KUBEBUILDER_ASSETS"):
    for _name, _value in (("GOGC", "off"), ("GOMEMLIMIT", "512MiB"), ("GOMAXPROCS", "1")):
        os.environ.setdefault(_name, _value)

# A shell without job control starts a background command with SIGINT ignored. Child processes
# inherit that, and no program that a test starts would end at Ctrl-C. A handler is not inherited:
# child processes start with the default action, and this process still ignores the signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda *_: None)

# Starts of the program cost imports of half a second each; forks have them done.
forkserver.install()

# structlog's default aligns and colours each line, and draws every frame with its variables where
# rich is installed: a twentieth of the CPU time of tests that play hours, and 90 ms for each
# exception that is logged.
*_processors, _ = structlog.get_config()["processors"]
structlog.configure(
    processors=[
        *_processors,
        structlog.processors.format_exc_info,
        structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
    ]
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return how many workers `-n auto` starts: half again as many as there are processors.

    A third of the suite's time passes in waiting: for leases, back-offs, processes that end. Real
    servers keep the processors busy: beside them xdist's own number stays.
    """
    if os.environ.get("KUBEBUILDER_ASSETS"):
        return None
    processors = os.cpu_count() or 1
    return processors + processors // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests first that wait for long: one of them would run on alone in the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


__all__ = [
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_fixture_post_finalizer",
    "pytest_fixture_setup",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_terminal_summary",
    "pytest_unconfigure",
]
