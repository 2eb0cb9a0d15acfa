"""Kubeconfig files for tests."""

from pathlib import Path
from typing import Any

import yaml


def write_kubeconfig(path: Path, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    """Write a kubeconfig whose current context is `one`; return its path.

    Args:
        path: where the kubeconfig is written.
        server: the URL of the cluster of both contexts.
        user: the user of the context `one`; that of `two` impersonates `system:admin`.
        cluster: further fields of the cluster.
    """
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": server} | cluster}],
        "users": [
            {"name": "u", "user": user},
            {"name": "i", "user": {"token": "good", "as": "system:admin"}},
        ],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u"}},
            {"name": "two", "context": {"cluster": "c", "user": "i"}},
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path
