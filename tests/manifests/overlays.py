"""The kustomize tree with components uncommented, as the documents tell people to do."""

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
"""Each component, and the kinds that it brings."""


def with_components(folder: Path, *components: str) -> Path:
    """Copy the tree into `folder` with components uncommented; return what is to be applied."""
    copy = folder / "manifests"
    shutil.copytree(MANIFESTS, copy)
    entry = copy / "default/kustomization.yaml"
    content = entry.read_text()
    for component in components:
        line = f"#- ../{component}\n"
        assert line in content, f"{entry} offers no component {component}"
        content = content.replace(line, line.removeprefix("#"))
    entry.write_text(content)
    return copy / "default"
