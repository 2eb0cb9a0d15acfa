"""Copies of the kustomize tree with components uncommented, as users switch them on."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.manifests.clusters import MANIFESTS

COMPONENTS: Mapping[str, set[str]] = {
    "certmanager": {"Issuer", "Certificate"},
    "prometheus": {"ServiceMonitor", "PrometheusRule", "ConfigMap"},
    "shards": {"Role", "RoleBinding"},
    "network-policy": {"NetworkPolicy"},
    "ui": {"Service", "ClusterRole", "ClusterRoleBinding"},
    "clusterapi": {"ClusterRole"},
    "clusterapi-crds": {"CustomResourceDefinition"},
    "kubermatic": {"ClusterRole"},
    "metal3": {"ClusterRole"},
    "vitistack": {"ClusterRole"},
}
"""The components, with the kinds of objects that each adds."""


def write_overlay(folder: Path, *components: str) -> Path:
    """Copy the kustomize tree into a folder, and uncomment components.

    Args:
        folder: where the copy is written.
        components: the names of the components.

    Returns:
        The folder to apply with `kubectl apply -k`.
    """
    copy = folder / "manifests"
    shutil.copytree(MANIFESTS, copy)
    entry = copy / "default/kustomization.yaml"
    content = entry.read_text()
    for component in components:
        line = f"#- ../{component}\n"
        assert line in content, f"{entry} has no line for the component {component}"
        content = content.replace(line, line.removeprefix("#"))
    entry.write_text(content)
    return copy / "default"
