"""A webhook of the tenant that does not answer has a reason of its own, and is not waited for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller.conditions import find_condition
from controller.meta import Key, ObjectMeta
from controller.resource import Resource
from envtest.ports import choose_free_port
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.cli.local.objects import delete
from tests.metallb.site import Site, run_site
from tests.polling import until
from tests.tenants import TEAM

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]


@dataclass(frozen=True)
class Configuration:
    """A ValidatingWebhookConfiguration; only that it is there matters."""

    metadata: ObjectMeta


WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    Configuration,
    namespaced=False,
)
NAME = "ipaddresspoolvalidationwebhook.metallb.io"


def _make_failing_webhook() -> dict[str, Any]:
    """Return a webhook for MetalLB's pools behind a port on which no server listens."""
    port = choose_free_port("127.0.0.1")
    rule = {
        "apiGroups": ["metallb.io"],
        "apiVersions": ["v1beta1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["ipaddresspools"],
    }
    webhook = {
        "name": NAME,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/validate"},
        "rules": [rule],
    }
    return {"metadata": {"name": "metallb"}, "webhooks": [webhook]}


async def _read_condition(site: Site) -> tuple[str, str]:
    """Return reason and message of LoadBalancerReady; empty if there is no such condition."""
    status = (await site.client.get(TENANT_CLUSTER, Key(TEAM, "a"))).status
    condition = find_condition(status.conditions, "LoadBalancerReady")
    return ("", "") if condition is None else (condition.reason, condition.message)


async def test_a_failing_webhook_is_named_and_the_tenant_is_ready_soon_after_it_is_back(
    tmp_path: Path,
) -> None:
    """Nothing else has the controller look: the intervals are those of production."""
    async with run_site(tmp_path) as site, site.controllers():
        tenant = site.tenants["a"]
        await tenant.client.create(WEBHOOKS, "", _make_failing_webhook())
        await site.offer("10.40.0.0/24", defaultPoolSize=4)
        await site.create_cluster("a")
        reason, message = await until(
            lambda: _read_condition(site), lambda condition: bool(condition[0])
        )
        assert reason == "TenantWebhookFailed"
        assert NAME in message
        written = (await site.client.get(TENANT_CLUSTER, Key(TEAM, "a"))).metadata
        page = await site.client.list(TENANT_CLUSTER)
        assert page.items[0].metadata.resourceVersion == written.resourceVersion
        await delete(tenant.client, WEBHOOKS, Key("", "metallb"))
        await site.ready("a")
