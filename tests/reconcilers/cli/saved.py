"""Objects as `kubectl get -o yaml` saves them, and commands that read them from a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.reconcilers.cli.commandline import (
    Outcome,
    make_allocation,
    make_held_status,
    make_object,
    run,
)
from tests.yamls import written_yaml

FINALIZER = "butler.butlerlabs.dev/ipallocation"
UID = "butler.butlerlabs.dev/tenant-uid"


def make_labels(pool: str, tenant: str, purpose: str = "loadbalancer") -> dict[str, str]:
    """Return the labels that the controllers give to an allocation.

    Args:
        pool: the name of its pool.
        tenant: the namespace/name of its TenantCluster.
        purpose: its spec.type.
    """
    namespace, _, cluster = tenant.partition("/")
    return {
        "butler.butlerlabs.dev/network-pool": pool,
        "butler.butlerlabs.dev/team": namespace,
        "butler.butlerlabs.dev/tenant": cluster,
        "butler.butlerlabs.dev/allocation-type": purpose,
    }


def make_holder(
    name: str,
    start: str,
    end: str,
    *,
    pool: str = "lab",
    tenant: str = "others/one",
    **more: Any,
) -> dict[str, Any]:
    """Return an allocation that holds a range, with all labels and the finalizer.

    Args:
        start: the first address of the range.
        end: the last address of the range.
        pool: the name of its pool.
        tenant: the namespace/name of its TenantCluster.
        more: further metadata; `labels` and `finalizers` replace those of the controllers.
    """
    more = {"labels": make_labels(pool, tenant), "finalizers": [FINALIZER], **more}
    return make_allocation(
        name,
        1,
        pool,
        tenant=tenant,
        status=make_held_status(start, end),
        uid=f"uid-{name}",
        **more,
    )


def make_saved_cluster(
    name: str = "one", namespace: str = "others", uid: str = "u1"
) -> dict[str, Any]:
    """Return a stored TenantCluster, with a uid, that names no ProviderConfig."""
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
