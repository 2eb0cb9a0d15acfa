"""The manifests that MetalLB ships are applied to a tenant as they are, and MetalLB runs there."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from controller.conditions import find_condition
from controller.config import connect
from controller.meta import Key
from controller.transport import Transport
from envtest import ControlPlane
from envtest.metallb import NAMESPACE, run_metallb_controller
from envtest.plane import RunningControlPlane as Plane
from envtest.settings import read_settings
from reconcilers.api.resources import SECRET, TENANT_CLUSTER
from reconcilers.loadbalancers.metallb.installation.bundle import parse_bundle
from reconcilers.loadbalancers.metallb.installation.installer import (
    CONFIG_MAP,
    METALLB_INSTALLED,
)
from tests.metallb.site import Site, Tenant, run_site
from tests.polling import until
from tests.tenants import HOME, TEAM

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

MANIFEST = "metallb-frr-k8s.yaml"
"""MetalLB's default from 0.16 on; it has all objects of metallb-native.yaml, and more."""
APPLIED = ("False", "MetalLB was just installed")
"""MetalLBInstalled after the pass that applied all of the bundle and found no MetalLB before it.

Where a definition is established later than those of MetalLB's pools, another pass applies the
rest, and MetalLBInstalled is True at once.
"""
WEBHOOKS = "kind: ValidatingWebhookConfiguration"


def _find_manifests() -> Path:
    """Return the folder of MetalLB's manifests beside its controller."""
    program = read_settings().metallb
    assert program is not None
    folder = program.with_name("metallb-manifests")
    if not folder.is_dir():
        pytest.skip("metallb-manifests is not beside MetalLB's controller: `make real` puts it")
    return folder


@asynccontextmanager
async def _bare_tenant(site: Site, folder: Path) -> AsyncIterator[tuple[Plane, Transport]]:
    """Start the API server of tenant a, which lacks MetalLB."""
    async with ControlPlane.start() as plane:
        transport = await connect(plane.write_kubeconfig(folder / "a.kubeconfig"))
        config = base64.b64encode(plane.get_kubeconfig().encode()).decode()
        await site.create(SECRET, TEAM, "a-admin-kubeconfig", data={"admin.conf": config})
        try:
            yield plane, transport
        finally:
            await transport.aclose()


async def _read_installation(site: Site) -> tuple[str, str]:
    """Return status and message of MetalLBInstalled."""
    cluster = await site.client.get(TENANT_CLUSTER, Key(TEAM, "a"))
    condition = find_condition(cluster.status.conditions, METALLB_INSTALLED)
    return (condition.status, condition.message) if condition is not None else ("", "")


def _read_bundle() -> str:
    """Return MetalLB's manifest without its webhooks: no pod runs here that would answer."""
    documents = (_find_manifests() / MANIFEST).read_text(encoding="utf-8").split("\n---\n")
    return "\n---\n".join(document for document in documents if WEBHOOKS not in document)


async def test_the_manifest_of_metallb_is_installed_and_services_are_served(
    tmp_path: Path,
) -> None:
    settings = replace(read_settings(), stop_seconds=1.0)
    async with (
        run_site(tmp_path, tenants=()) as site,
        _bare_tenant(site, tmp_path) as (plane, transport),
        site.controllers(f"--metallb-bundle={HOME}/metallb"),
    ):
        await site.create(CONFIG_MAP, HOME, "metallb", data={MANIFEST: _read_bundle()})
        await site.offer("10.40.0.0/24", defaultPoolSize=8)
        await site.create_cluster("a")
        await until(
            lambda: _read_installation(site),
            lambda status: status == APPLIED or status[0] == "True",
        )
        async with run_metallb_controller(plane.get_kubeconfig(), settings) as metallb:
            tenant = Tenant(Key(TEAM, "a"), plane, transport=transport, metallb=metallb)
            await site.ready("a")
            await tenant.create_services("web")
            assert set(await tenant.wait_until_served("web")) == {"web"}
            await until(lambda: _read_installation(site), lambda status: status[0] == "True")


def test_every_manifest_of_metallb_is_a_bundle_that_can_be_applied() -> None:
    for file in _find_manifests().glob("*.yaml"):
        bundle = parse_bundle({file.name: file.read_text(encoding="utf-8")})
        assert NAMESPACE in {
            manifest.key.name for manifest in bundle.manifests if manifest.kind == "Namespace"
        }
