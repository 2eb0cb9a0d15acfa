"""Structural schemas of custom resources: from request bytes to a validated object.

Decoding, pruning, defaults, validation, CRD checks, tables and published OpenAPI:
pure functions over decoded JSON; their yardstick is kube-apiserver v1.36.
"""

from envtest.schema.compiled import CompiledSchema
from envtest.schema.crd import find_crd_warnings, find_names_errors, set_crd_defaults, validate_crd
from envtest.schema.decoding import (
    MalformedJSON,
    MalformedYAML,
    cut_snippet,
    dump_yaml,
    read_json,
    read_yaml,
)
from envtest.schema.embedded import MalformedObject
from envtest.schema.errors import FieldError, join_messages
from envtest.schema.objectmeta import MalformedMetadata
from envtest.schema.publishing import build_definition_name, build_definitions
from envtest.schema.tables import (
    PrintedColumn,
    build_table_cells,
    build_table_columns,
    format_duration,
)

__all__ = [
    "CompiledSchema",
    "FieldError",
    "MalformedJSON",
    "MalformedMetadata",
    "MalformedObject",
    "MalformedYAML",
    "PrintedColumn",
    "build_definition_name",
    "build_definitions",
    "build_table_cells",
    "build_table_columns",
    "cut_snippet",
    "dump_yaml",
    "find_crd_warnings",
    "find_names_errors",
    "format_duration",
    "join_messages",
    "read_json",
    "read_yaml",
    "set_crd_defaults",
    "validate_crd",
]
