"""Patches as kube-apiserver applies them: merge, strategic merge, JSON patch.

Server-side apply, and who owns which field afterwards, is `controller.managedfields`.

Pure functions over plain dicts and lists. Every patch returns a new object that shares what it
does not touch with its inputs, so nothing that passes through here may be changed in place.
"""

from envtest.patching.hints import PatchHints
from envtest.patching.patches import check_operations, json_patch, merge_patch
from envtest.patching.strategic import strategic_merge

__all__ = ["PatchHints", "check_operations", "json_patch", "merge_patch", "strategic_merge"]
