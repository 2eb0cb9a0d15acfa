"""The content of `kinds.json`: the built-in resources and the schemas of their fields."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

_PREFIXES = {
    "": "io.k8s.api.core",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}


@cache
def _read_catalogue() -> Mapping[str, Any]:
    """Return the content of `kinds.json`, read once per process."""
    data = files("envtest.kinds").joinpath("kinds.json").read_bytes()
    # Each process decodes this file once; msgspec takes half the time of `json`.
    loaded: Mapping[str, Any] = msgspec.json.decode(data)
    return loaded


def list_resources() -> Mapping[str, list[dict[str, Any]]]:
    """Return the discovery entries of resources and subresources by group version."""
    by_version: Mapping[str, list[dict[str, Any]]] = _read_catalogue()["resources"]
    return by_version


def get_schema(name: str) -> Mapping[str, Any]:
    """Return a schema by its OpenAPI name; its references are not resolved."""
    definition: Mapping[str, Any] = _read_catalogue()["schemas"][name]
    return definition


def get_schemas() -> Mapping[str, Any]:
    """Return all schemas by their OpenAPI names."""
    definitions: Mapping[str, Any] = _read_catalogue()["schemas"]
    return definitions


def build_schema_name(group: str, version: str, kind: str) -> str:
    """Return the OpenAPI name of a built-in kind."""
    prefix = _PREFIXES.get(group) or f"io.k8s.api.{group.removesuffix('.k8s.io').split('.')[0]}"
    return f"{prefix}.{version}.{kind}"
