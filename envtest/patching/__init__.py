"""Patches as kube-apiserver applies them: merge patch, strategic merge patch and JSON patch.

Server-side apply and the ownership of fields are in `controller.managedfields`.

All are pure functions over dicts and lists. A patch returns a new object that shares its unchanged
parts with its inputs, so callers must not change inputs or results in place.
"""

from envtest.patching.hints import PatchHints
from envtest.patching.patches import check_operations, json_patch, merge_patch
from envtest.patching.strategic import strategic_merge

__all__ = ["PatchHints", "check_operations", "json_patch", "merge_patch", "strategic_merge"]
