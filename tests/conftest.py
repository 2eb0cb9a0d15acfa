"""What holds for every test: it leaves nothing behind (hygiene.py), and CI repeats itself."""

import os

from hypothesis import settings

from tests.hygiene import (
    pytest_collection_finish,
    pytest_configure,
    pytest_fixture_post_finalizer,
    pytest_fixture_setup,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_unconfigure,
)

# CI tries the same examples each time; everywhere else hypothesis looks for new ones.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")

__all__ = [
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_fixture_post_finalizer",
    "pytest_fixture_setup",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_unconfigure",
]
