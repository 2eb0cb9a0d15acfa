"""Answers in protobuf: which message an object is."""

from collections.abc import Mapping
from typing import Any

from envtest.kinds.catalogue import schema_name
from envtest.wire.encoding import write_protobuf

_META = "io.k8s.apimachinery.pkg.apis.meta"
# Kinds that say `v1` without being of the core group.
_META_KINDS = frozenset({"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"})


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return an object, with kind and apiVersion, in protobuf."""
    return write_protobuf(body, message_name(body.get("apiVersion", ""), body["kind"]))


def message_name(api_version: str, kind: str) -> str:
    """Return the OpenAPI name of a kind that can be in an answer."""
    group, _, version = api_version.rpartition("/")
    if group == "meta.k8s.io":
        # Of these, the old version only has a list of its own.
        old = kind == "PartialObjectMetadataList" and version == "v1beta1"
        return f"{_META}.{'v1beta1' if old else 'v1'}.{kind}"
    if not group and kind in _META_KINDS:
        return f"{_META}.v1.{kind}"
    return schema_name(group, version, kind)
