"""Objects as `kubectl get -o yaml` saves them, and commands that read them from a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.reconcilers.cli.commandline import (
    Outcome,
    allocation,
    make_held_status,
    make_object,
    run,
)
from tests.yamls import written_yaml

FINALIZER = "butler.butlerlabs.dev/ipallocation"
UID = "butler.butlerlabs.dev/tenant-uid"


def make_labels(name: str, of: str, tenant: str, kind: str = "loadbalancer") -> dict[str, str]:
    """Return the labels that the controllers give to an allocation of pool `of` for a tenant."""
    team, _, cluster = tenant.partition("/")
    return {
        "butler.butlerlabs.dev/network-pool": of,
        "butler.butlerlabs.dev/team": team,
        "butler.butlerlabs.dev/tenant": cluster,
        "butler.butlerlabs.dev/allocation-type": kind,
    }


def make_holder(name: str, start: str, end: str, **more: Any) -> dict[str, Any]:
    """Return an allocation that holds a range, with all labels and the finalizer."""
    tenant = more.get("tenant", "others/one")
    more.setdefault("labels", make_labels(name, "lab", tenant))
    more.setdefault("finalizers", [FINALIZER])
    return allocation(name, 1, status=make_held_status(start, end), uid=f"uid-{name}", **more)


def cluster(name: str = "one", namespace: str = "others", uid: str = "u1") -> dict[str, Any]:
    """Return a TenantCluster that names no ProviderConfig."""
    body = make_object(
        "TenantCluster",
        name,
        {"kubernetesVersion": "v1.31.0", "workers": {"replicas": 1}},
        uid=uid,
    )
    body["metadata"]["namespace"] = namespace
    return body


def run_on_files(folder: Path, *arguments: str, objects: tuple[Mapping[str, Any], ...]) -> Outcome:
    """Save objects in a file of a folder, and run a command with `-f` on it."""
    saved = folder / "saved.yaml"
    saved.write_text(written_yaml(objects))
    return run(*arguments, "-f", saved)
