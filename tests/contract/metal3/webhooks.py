"""Lets the API server call the product's webhooks for metal3 in namespaces with a label."""

from functools import partial

import httpx
import pytest

from envtest import ports
from reconcilers.configuration.integrationnames import METAL3
from reconcilers.webhooks.configuration import INTEGRATIONS, NAME
from tests.contract.metal3.lab import Body, Metal3Lab
from tests.contract.webhookregistration import HOST, register_webhooks
from tests.polling import until

NAMESPACE_LABELS = {"webhooks": "on"}
"""The labels of namespaces whose objects the webhooks check."""
MINIMAL_SPECS: Body = {
    "IPPool": {"namePrefix": "p", "pools": [{}]},
    "IPClaim": {"pool": {}},
    "IPAddress": {"address": "10.0.0.1", "pool": {}, "claim": {}},
}
"""By kind: a spec with all fields that the schema requires; the webhooks refuse it."""


def choose_flags() -> tuple[int, list[str]]:
    """Return a free port, and the flags with which the product serves webhooks at it."""
    port = ports.choose_free_port(HOST)
    return port, [f"--webhook-port={port}", f"--webhook-cert-name={HOST}"]


async def register_metal3_webhooks(admin: httpx.AsyncClient, port: int) -> None:
    """Register the webhooks of metal3's kinds under the name that the product's roles allow.

    Args:
        admin: the administrator's client.
        port: at which the product serves them.
    """
    await register_webhooks(
        admin,
        NAME,
        validated=INTEGRATIONS[METAL3],
        port=port,
        namespace_labels=NAMESPACE_LABELS,
    )


async def wait_until_called(lab: Metal3Lab) -> None:
    """Wait until the API server calls the webhooks of all kinds in a namespace with the label."""
    for kind in MINIMAL_SPECS:
        await until(partial(_is_webhook_called, lab, kind), bool)


async def _is_webhook_called(lab: Metal3Lab, kind: str) -> bool:
    """Return whether the API server calls the webhook of a kind; only a request can tell."""
    return (await post_dry(lab, kind, {})).status_code == 422


async def post_dry(lab: Metal3Lab, kind: str, spec: Body, **metadata: object) -> httpx.Response:
    """Create an object by a dry run; return the answer."""
    body: Body = {
        "apiVersion": "ipam.metal3.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "tried", **metadata},
        "spec": {**MINIMAL_SPECS[kind], **spec},
    }
    return await lab.admin.post(lab.build_path(kind), json=body, params={"dryRun": "All"})


without_webhooks = pytest.mark.parametrize(
    "lab", [pytest.param({}, id="no webhooks")], indirect=True
)
"""Plays a test only in a namespace whose objects no webhook checks."""
with_webhooks = pytest.mark.parametrize(
    "lab", [pytest.param(NAMESPACE_LABELS, id="webhooks")], indirect=True
)
"""Plays a test only in a namespace whose objects the product's webhooks check."""
