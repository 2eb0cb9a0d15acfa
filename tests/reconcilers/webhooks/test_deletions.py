"""The deletion of an IPAllocation in use gets a warning that names who uses it."""

from typing import Any

import pytest

from reconcilers.webhooks import ipallocation
from tests.reconcilers import make

RANGE = ("10.40.0.0", "10.40.0.7")
HAS = "IPAllocation butler-system/a has 10.40.0.0/29, which"
"""How each warning begins."""


def list_warnings(status: dict[str, Any], *, meta: Any = None, **allocation: Any) -> list[str]:
    """Return the warnings about the deletion of allocation `a` of a cluster with this status."""
    cluster = make.tenant(status=status, **(meta or {}))
    old = make.allocation("a", **({"held_range": RANGE} | allocation))
    verdict = ipallocation.review_deletion(old, cluster)
    assert verdict.allowed
    return list(verdict.warnings)


def make_status(*services: str, allocation: str = "a", **status: Any) -> dict[str, Any]:
    """Return a cluster status in which these Services use the range of an allocation."""
    pool_status = {
        "allocation": allocation,
        "namespace": make.NAMESPACE,
        "pool": "lab",
        "type": "loadbalancer",
        "role": "growth",
        "family": "IPv4",
        "range": "10.40.0.0-10.40.0.7",
        "services": list(services),
    }
    return {"phase": "Ready", "network": {"ranges": [pool_status]}} | status


def test_the_services_that_use_the_range_are_named() -> None:
    assert list_warnings(make_status("shop/web", "shop/api")) == [
        f"{HAS} Services shop/web, shop/api of TenantCluster team/a use; they lose these addresses"
    ]


def test_of_many_services_only_some_are_named() -> None:
    [warning] = list_warnings(make_status(*(f"shop/s{number}" for number in range(5))))
    assert "shop/s4 and perhaps others of TenantCluster team/a" in warning


@pytest.mark.parametrize(
    "status",
    [{"phase": "Ready"}, make_status(), make_status("shop/web", allocation="b")],
    ids=["nothing known", "no Service named", "a Service of another range"],
)
def test_without_known_services_the_warning_names_the_ready_cluster(
    status: dict[str, Any],
) -> None:
    assert list_warnings(status) == [f"{HAS} may be in use: TenantCluster team/a is Ready"]


def test_services_are_named_even_if_the_cluster_is_not_ready() -> None:
    assert "shop/web" in list_warnings(make_status("shop/web", phase="Provisioning"))[0]


def test_the_deletion_of_an_unused_allocation_has_no_warning() -> None:
    ready = {"phase": "Ready"}
    assert list_warnings({"phase": "Provisioning"}) == []
    assert list_warnings(ready, held_range=None) == []
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert list_warnings(make_status("shop/web"), meta=gone) == []
    assert (
        ipallocation.review_deletion(make.allocation("a", held_range=RANGE), None).warnings == ()
    )
