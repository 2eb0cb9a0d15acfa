"""A tenant whose webhook fails is reachable: the webhook is named, and the write retried soon."""

import pytest

from controller.errors import ServerFailure
from reconcilers.configuration.settings import TenantSettings
from tests.reconcilers import make
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Server

WEBHOOK = "ipaddresspoolvalidationwebhook.metallb.io"
MESSAGES = {  # of the API server, and the part that the condition repeats
    f'Internal error occurred: failed calling webhook "{WEBHOOK}": failed to call webhook: Post'
    ' "https://metallb-webhook-service.metallb-system.svc:443/v?timeout=10s": dial tcp'
    " 10.96.0.7:443: connect: connection refused": f"admission webhook {WEBHOOK}",
    "conversion webhook for metallb.io/v1beta1, Kind=IPAddressPool failed: Post"
    ' "https://x": EOF': "conversion webhook for metallb.io/v1beta1",
}


def _make_platform() -> tuple[Platform, Server]:
    """Return a platform that is not running yet, and the API server of its tenant."""
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab"))
    platform.server.add("tenantclusters", make.tenant())
    return platform, platform.tenant("a")


def _read_condition(platform: Platform) -> tuple[str, str]:
    """Return reason and message of the condition LoadBalancerReady."""
    conditions = platform.server.see("tenantclusters", "a", namespace="team")["status"][
        "conditions"
    ]
    condition = next(
        candidate for candidate in conditions if candidate["type"] == "LoadBalancerReady"
    )
    return condition["reason"], condition["message"]


@pytest.mark.parametrize(
    ("message", "expected"), MESSAGES.items(), ids=["admission", "conversion"]
)
async def test_a_failing_webhook_is_named_and_its_tenant_is_ready_seconds_after_it_is_back(
    message: str, expected: str
) -> None:
    platform, tenant = _make_platform()
    failure = ServerFailure(500, "InternalError", message)
    tenant.fail(failure, plural="ipaddresspools", verb="post", times=10**6)
    async with platform.running():
        await platform.clock.advance(600)
        reason, condition_message = _read_condition(platform)
        assert reason == "TenantWebhookFailed"
        assert expected in condition_message
        written = platform.server.revision
        await platform.clock.advance(60)
        assert platform.server.revision == written, "the condition is written once"
        tenant.recover()
        await platform.clock.advance(6)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"


def test_a_request_outlasts_the_time_that_an_api_server_gives_a_webhook() -> None:
    default_timeout_seconds = 10  # of a webhook configuration; MetalLB's says nothing else
    assert TenantSettings().request_timeout > default_timeout_seconds


async def test_after_other_failures_the_tenant_is_tried_with_longer_and_longer_pauses() -> None:
    platform, tenant = _make_platform()
    tenant.fail(ServerFailure(500, "InternalError", "etcd is full"), times=10**6)
    async with platform.running():
        await platform.clock.advance(600)
        assert _read_condition(platform)[0] == "TenantUnreachable"
        assert len(tenant.requests) < 60
