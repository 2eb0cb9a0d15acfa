"""Structural schemas of custom resources: from request bytes to a validated object.

Decoding, pruning, defaults, validation, CRD checks, tables and published OpenAPI:
pure functions over decoded JSON; their yardstick is kube-apiserver v1.36.
"""

from envtest.schema.compiled import CompiledSchema
from envtest.schema.crd import crd_warnings, default_crd, names_errors, validate_crd
from envtest.schema.decoding import (
    MalformedJSON,
    MalformedYAML,
    read_json,
    read_yaml,
    snippet,
    write_yaml,
)
from envtest.schema.embedded import MalformedObject
from envtest.schema.errors import FieldError, aggregate_message
from envtest.schema.objectmeta import MalformedMetadata
from envtest.schema.publishing import definition_name, openapi_v3
from envtest.schema.tables import PrintedColumn, human_duration, table_cells, table_columns

__all__ = [
    "CompiledSchema",
    "FieldError",
    "MalformedJSON",
    "MalformedMetadata",
    "MalformedObject",
    "MalformedYAML",
    "PrintedColumn",
    "aggregate_message",
    "crd_warnings",
    "default_crd",
    "definition_name",
    "human_duration",
    "names_errors",
    "openapi_v3",
    "read_json",
    "read_yaml",
    "snippet",
    "table_cells",
    "table_columns",
    "validate_crd",
    "write_yaml",
]
