"""Patches as kube-apiserver applies them, and who owns which field afterwards.

Pure functions over plain dicts and lists. Every patch returns a new object that shares what it
does not touch with its inputs, so nothing that passes through here may be changed in place.
"""

from envtest.patching.applying import apply, same_except_times
from envtest.patching.entries import (
    check_manager,
    decoding_error,
    default_manager,
    validate_managed_fields,
)
from envtest.patching.errors import ApplyConflict, Cause, PatchError
from envtest.patching.fieldmodel import FieldModel, Versions
from envtest.patching.hints import PatchHints
from envtest.patching.patches import check_operations, json_patch, merge_patch
from envtest.patching.strategic import strategic_merge
from envtest.patching.tracking import track_update
from envtest.schema.gotext import json_kind

__all__ = [
    "ApplyConflict",
    "Cause",
    "FieldModel",
    "PatchError",
    "PatchHints",
    "Versions",
    "apply",
    "check_manager",
    "check_operations",
    "decoding_error",
    "default_manager",
    "json_kind",
    "json_patch",
    "merge_patch",
    "same_except_times",
    "strategic_merge",
    "track_update",
    "validate_managed_fields",
]
