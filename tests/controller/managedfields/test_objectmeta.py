"""The schema of metadata is the one that servers publish."""

from controller.managedfields.objectmeta import SCHEMAS
from envtest.kinds import catalogue


def test_the_schema_of_metadata_is_that_of_the_servers() -> None:
    assert {name: catalogue.get_schema(name) for name in SCHEMAS} == SCHEMAS
