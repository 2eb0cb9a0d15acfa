"""The rules on TenantClusters: their networking, and their ProviderConfig."""

from typing import Any

import pytest

from controller.meta import Key
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.specrules.verdict import Verdict
from reconcilers.tenantcluster.provider import DefaultUnknown
from reconcilers.webhooks import tenantcluster
from reconcilers.webhooks.tenantcluster import Provision
from tests.reconcilers import make

IPAM = make.provider("lab", name="onprem", quota={"maxLoadBalancerIPs": 4})
CLOUD = make.provider(name="cloud", spec={"network": {"mode": "cloud"}})


def make_provision(config: ProviderConfig) -> Provision:
    """Return the reference to a ProviderConfig, with the ProviderConfig itself."""
    return Provision(config.metadata.key, config)


def review_networking(
    networking: dict[str, Any], config: ProviderConfig = CLOUD, *pools: Any
) -> Verdict:
    """Return the verdict on a cluster with this spec.networking, beside NetworkPools."""
    cluster = make.tenant(spec={"networking": networking})
    return tenantcluster.review_spec(cluster, make_provision(config), make.spaces(*pools))


def make_manual_pool(start: str, end: str) -> dict[str, Any]:
    """Return a spec.networking with a load balancer pool that a person chose."""
    return {"loadBalancerPool": {"start": start, "end": end}}


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ("10.0.0.9", "10.0.0.3", "start is after end"),
        ("10.0.0.9", "x", '"x" is not an IP address'),
        ("", "10.0.0.3", '"" is not an IP address'),
        ("10.0.0.9", "fd00::1", "use one family"),
    ],
)
def test_an_invalid_load_balancer_pool_is_rejected(start: str, end: str, message: str) -> None:
    [cause] = review_networking(make_manual_pool(start, end)).causes
    assert cause.field == "spec.networking.loadBalancerPool"
    assert message in cause.message


def test_a_load_balancer_pool_within_a_network_pool_is_a_warning() -> None:
    verdict = review_networking(
        make_manual_pool("10.40.0.8", "10.40.0.15"),
        CLOUD,
        make.pool(),
        make.pool("x", "10.9.0.0/24"),
    )
    assert verdict.allowed
    [warning] = verdict.warnings
    assert warning == (
        "spec.networking.loadBalancerPool: addresses are also handed out by NetworkPool"
        " butler-system/lab (8 addresses)"
    )


def test_a_load_balancer_pool_of_addresses_that_no_pool_hands_out_is_no_warning() -> None:
    reserved = make.pool(reserved=["10.40.0.0/28"])
    assert (
        review_networking(make_manual_pool("10.40.0.8", "10.40.0.15"), CLOUD, reserved).warnings
        == ()
    )


def test_a_load_balancer_pool_under_ipam_is_a_warning() -> None:
    [warning] = review_networking(make_manual_pool("10.40.0.8", "10.40.0.15"), IPAM).warnings
    assert "ignored, as ProviderConfig butler-system/onprem uses IPAM" in warning


def test_a_size_above_the_quota_is_a_warning_that_names_the_quota() -> None:
    verdict = review_networking({"lbPoolSize": 5}, IPAM)
    assert verdict.allowed
    assert verdict.warnings == (
        (
            "spec.networking.lbPoolSize: 5 is above the quota of ProviderConfig"
            " butler-system/onprem; the cluster gets 4"
        ),
    )
    assert review_networking({"lbPoolSize": 4}, IPAM) == Verdict()


def test_a_size_without_ipam_is_a_warning() -> None:
    assert "does not use IPAM" in review_networking({"lbPoolSize": 5}, CLOUD).warnings[0]


def test_a_provider_that_does_not_exist_is_a_warning() -> None:
    nowhere = Provision(Key("butler-system", "nowhere"), None)
    verdict = tenantcluster.review_spec(make.tenant(), nowhere, make.spaces())
    assert verdict.allowed
    assert "ProviderConfig butler-system/nowhere does not exist" in verdict.warnings[0]
    assert (
        tenantcluster.review_spec(make.tenant(), Provision(None, None), make.spaces()) == Verdict()
    )


@pytest.mark.parametrize(
    ("status", "allocations"),
    [
        ({"lbAllocationRef": {"name": "team-a-lb"}}, []),
        ({"ipAllocationRef": {"name": "team-a-lb"}}, []),
        ({}, [Key("butler-system", "team-a-lb")]),
    ],
)
def test_the_provider_cannot_be_changed_while_the_cluster_has_addresses(
    status: dict[str, Any], allocations: list[Key]
) -> None:
    old = make.tenant(status=status)
    verdict = tenantcluster.review_provider_change(
        old, (make_provision(IPAM), make_provision(CLOUD)), allocations
    )
    [cause] = verdict.causes
    assert cause.field == "spec.providerConfigRef"
    assert cause.message == (
        "cannot change from ProviderConfig butler-system/onprem to butler-system/cloud while the"
        " cluster has addresses of its pools: IPAllocation team-a-lb"
    )


def test_an_unknown_default_provider_is_a_warning_and_keeps_a_cluster_with_addresses() -> None:
    unknown = Provision(None, None, str(DefaultUnknown("ButlerConfig butler may not be read")))
    verdict = tenantcluster.review_spec(make.tenant(), unknown, make.spaces())
    assert verdict.allowed
    [warning] = verdict.warnings
    assert warning == (
        "the platform's default ProviderConfig is not known: ButlerConfig butler may not be read;"
        " the cluster waits until it is known"
    )
    both = (unknown, make_provision(IPAM))
    assert tenantcluster.review_provider_change(make.tenant(), both, []).allowed
    assert not tenantcluster.review_provider_change(
        make.tenant(), both, [Key("team", "a-lb")]
    ).allowed


def test_the_provider_can_be_changed_before_the_cluster_has_addresses() -> None:
    both = (make_provision(IPAM), make_provision(CLOUD))
    assert tenantcluster.review_provider_change(make.tenant(), both, []).allowed


def test_the_same_provider_may_be_referred_to_in_another_form() -> None:
    old = make.tenant(status={"lbAllocationRef": {"name": "x"}})
    assert tenantcluster.review_provider_change(
        old, (make_provision(IPAM), make_provision(IPAM)), []
    ).allowed
    assert tenantcluster.review_provider_change(
        None, (make_provision(IPAM), make_provision(CLOUD)), []
    ).allowed
