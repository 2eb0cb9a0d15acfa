"""Who owns which field of an object: server-side apply, and the ownership of other writes.

Pure functions over decoded JSON, as kube-apiserver has them (structured-merge-diff, and
`k8s.io/apimachinery/pkg/util/managedfields`). The API servers of `envtest` and of
`controller.testing` both stand on this package; it imports neither.

Results share what a write does not touch with their inputs, so nothing that passes through here
may be changed in place.
"""

from controller.managedfields.applying import apply, are_equal_except_times
from controller.managedfields.entries import (
    check_manager,
    find_decoding_error,
    get_default_manager,
    validate_managed_fields,
)
from controller.managedfields.errors import ApplyConflict, FieldCause, PatchError
from controller.managedfields.fieldmodel import FieldModel, Versions
from controller.managedfields.tracking import track_update

__all__ = [
    "ApplyConflict",
    "FieldCause",
    "FieldModel",
    "PatchError",
    "Versions",
    "apply",
    "are_equal_except_times",
    "check_manager",
    "find_decoding_error",
    "get_default_manager",
    "track_update",
    "validate_managed_fields",
]
