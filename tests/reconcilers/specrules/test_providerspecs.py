"""The rules on ProviderConfigs."""

from typing import Any

import pytest

from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.specrules import providerspecs
from tests.reconcilers import make

CREDENTIALS = {"credentialsRef": {"name": "secret"}}


def make_cloud_provider(
    provider: str, settings: dict[str, Any] | None, **network: Any
) -> ProviderConfig:
    """Return the ProviderConfig of a cloud with these settings; None for none."""
    spec: dict[str, Any] = {"provider": provider, "network": {"mode": "cloud"} | network}
    if settings is not None:
        spec[provider] = settings
    return make.provider(spec=spec | CREDENTIALS)


def list_rejected_fields(new: ProviderConfig) -> list[str]:
    """Return the fields for which a new ProviderConfig is rejected."""
    return [cause.field for cause in providerspecs.review_provider(new).causes]


@pytest.mark.parametrize("provider", ["azure", "aws", "gcp"])
def test_a_cloud_provider_needs_its_settings(provider: str) -> None:
    assert list_rejected_fields(make_cloud_provider(provider, None)) == [f"spec.{provider}"]


@pytest.mark.parametrize(
    ("provider", "settings", "missing"),
    [
        (
            "azure",
            {"subscriptionID": "", "resourceGroup": ""},
            ["subscriptionID", "resourceGroup"],
        ),
        ("aws", {"region": ""}, ["region"]),
        ("gcp", {"projectID": "p", "region": ""}, ["region"]),
        ("gcp", {"projectID": "p", "region": "r"}, []),
    ],
)
def test_a_cloud_provider_needs_its_identifiers(
    provider: str, settings: dict[str, str], missing: list[str]
) -> None:
    assert list_rejected_fields(make_cloud_provider(provider, settings)) == [
        f"spec.{provider}.{name}" for name in missing
    ]


@pytest.mark.parametrize("provider", ["harvester", "nutanix", "proxmox"])
def test_other_providers_need_no_settings(provider: str) -> None:
    assert (
        list_rejected_fields(make.provider("lab", spec={"provider": provider} | CREDENTIALS)) == []
    )


def test_all_but_local_need_credentials() -> None:
    assert list_rejected_fields(make.provider("lab", spec={"provider": "nutanix"})) == [
        "spec.credentialsRef"
    ]
    assert list_rejected_fields(make.provider("lab", spec={"provider": "local"})) == []


def test_a_team_scope_needs_its_team() -> None:
    assert list_rejected_fields(make.provider("lab", spec={"scope": {"type": "team"}})) == [
        "spec.scope.teamRef"
    ]
    team = {"type": "team", "teamRef": {"name": "a"}}
    assert list_rejected_fields(make.provider("lab", spec={"scope": team})) == []


def test_ipam_needs_a_pool() -> None:
    verdict = providerspecs.review_provider(make.provider())
    assert verdict.join_causes() == (
        'spec.network.poolRefs: at least one poolRef is required when network mode is "ipam"'
    )


def test_ipam_is_not_for_clouds() -> None:
    new = make_cloud_provider("aws", {"region": "r"}, mode="ipam", poolRefs=[{"name": "lab"}])
    verdict = providerspecs.review_provider(new)
    assert verdict.join_causes() == (
        "spec.network.mode: IPAM mode is not supported for cloud providers"
    )


@pytest.mark.parametrize(
    ("sizing", "field"),
    [
        ({"allocationMode": "elastic", "initialPoolSize": 5}, "initialPoolSize"),
        ({"allocationMode": "static", "defaultPoolSize": 5}, "defaultPoolSize"),
        ({"allocationMode": "static", "initialPoolSize": 5, "defaultPoolSize": 4}, None),
    ],
)
def test_a_size_above_the_quota_is_a_warning_as_tenants_get_the_quota(
    sizing: dict[str, Any], field: str | None
) -> None:
    new = make.provider("lab", load_balancer=sizing, quota={"maxLoadBalancerIPs": 4})
    verdict = providerspecs.review_provider(new)
    assert verdict.allowed
    reported = f"spec.network.loadBalancer.{field}: 5 is above the quota; tenants get 4"
    assert (reported in verdict.warnings) is (field is not None)


def test_a_default_above_the_quota_is_a_warning() -> None:
    verdict = providerspecs.review_provider(make.provider("lab", quota={"maxLoadBalancerIPs": 4}))
    assert verdict.allowed
    assert verdict.warnings == (
        (
            "spec.network.loadBalancer.defaultPoolSize: the default of 8 is above the quota;"
            " tenants get 4"
        ),
    )


def test_a_quota_without_room_to_grow_is_a_warning() -> None:
    sizing = {"allocationMode": "elastic", "initialPoolSize": 3, "growthIncrement": 2}
    new = make.provider("lab", load_balancer=sizing, quota={"maxLoadBalancerIPs": 4})
    [warning] = providerspecs.review_provider(new).warnings
    assert "tenants never grow: 3 + 2 is above the quota of 4" in warning
