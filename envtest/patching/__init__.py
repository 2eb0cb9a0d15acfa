"""Patches as kube-apiserver applies them: merge patch, strategic merge patch and JSON patch.

Server-side apply and the ownership of fields are in `controller.managedfields`.

All are pure functions over dicts and lists. A patch returns a new object that shares its unchanged
parts with its inputs, so callers must not change inputs or results in place.
"""

from envtest.patching.hints import PatchHints
from envtest.patching.patches import apply_json_patch, apply_merge_patch, check_operations
from envtest.patching.strategic import apply_strategic_patch

__all__ = [
    "PatchHints",
    "apply_json_patch",
    "apply_merge_patch",
    "apply_strategic_patch",
    "check_operations",
]
