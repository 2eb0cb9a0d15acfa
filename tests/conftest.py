"""What holds for every test: it leaves nothing behind (hygiene.py)."""

from tests.hygiene import (
    pytest_collection_finish,
    pytest_configure,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_unconfigure,
)

__all__ = [
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_unconfigure",
]
