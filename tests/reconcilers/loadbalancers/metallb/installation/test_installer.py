"""MetalLB is installed in tenants that lack it, from a bundle in a ConfigMap."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.errors import Invalid, ServerFailure
from controller.outcome import Again, Blocked
from controller.testing import WriteRecord
from reconcilers.configuration.settings import Settings, TenantSettings
from reconcilers.loadbalancers.metallb.installation.bundle import InvalidBundle, parse_bundle
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Json, Server

BUNDLE = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: controller
  creationTimestamp: null
spec: {started: 2026-01-01}
---
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ipaddresspools.metallb.io}
status: {conditions: []}
---
apiVersion: v1
kind: Namespace
metadata: {name: metallb-system}
"""
LAST_KIND = """
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicel2statuses.metallb.io}
"""
KINDS = ("services", "namespaces", "deployments", "customresourcedefinitions")
METALLB = ("ipaddresspools", "l2advertisements")
KEY = ("deployments", "controller")


def _make_lab(bundle: str | None = BUNDLE, **settings: Any) -> tuple[Lab, Server]:
    tenant = replace(TenantSettings(), metallb_bundle="metallb", **settings)
    lab = Lab(Settings(tenant=tenant))
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    if bundle is not None:
        _make_bundle(lab, bundle)
    return lab, lab.start_tenant_server("a", served_kinds=KINDS)


def _make_bundle(lab: Lab, content: str) -> None:
    meta = {"name": "metallb", "namespace": make.NAMESPACE}
    lab.server.add("configmaps", {"metadata": meta, "data": {"metallb.yaml": content}})


def _establish(tenant: Server) -> Callable[[WriteRecord], None]:
    """Serve MetalLB's kinds once their definition is there, as an API server would."""

    def establish(happening: WriteRecord) -> None:
        if happening.plural != "customresourcedefinitions" or "ipaddresspools" in tenant.served:
            return
        tenant.served = (*tenant.served, *METALLB)
        _set_established(tenant, happening.object["metadata"]["name"])

    return establish


def _set_established(tenant: Server, name: str) -> None:
    """Set the condition by which an API server says that it serves a definition's kind."""
    patch: Json = {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
    tenant.edit("customresourcedefinitions", name, patch, namespace="")


async def _pass_when_due(lab: Lab) -> None:
    """Advance the time to the next pass over the cluster that a pass asks for, and run that."""
    outcome = await lab.run_cluster_pass()
    assert isinstance(outcome, Again | Blocked)
    assert outcome.after is not None
    await lab.clock.advance(outcome.after)
    await lab.run_cluster_pass()


def _read_condition(lab: Lab, kind: str = "MetalLBInstalled") -> tuple[str, str, str]:
    condition = lab.find_condition("tenantclusters", "a", kind=kind, namespace="team")
    return condition["status"], condition["reason"], condition["message"]


async def test_a_tenant_without_metallb_gets_it_and_then_its_addresses() -> None:
    lab, tenant = _make_lab()
    tenant.listeners.append(_establish(tenant))
    await lab.run_until_at_rest()
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"
    assert _read_condition(lab)[:2] == ("True", "Installed")
    deployment = tenant.see(*KEY, namespace="metallb-system")
    assert deployment["spec"] == {"started": "2026-01-01"}
    assert tenant.all("ipaddresspools")
    order = [h.plural for h in tenant.history if h.type == "ADDED"][:3]
    assert order == ["namespaces", "customresourcedefinitions", "deployments"]


async def test_nothing_else_is_applied_before_the_kinds_are_established() -> None:
    lab, tenant = _make_lab()
    await lab.run_rounds("a", 3)
    assert tenant.all("deployments") == []
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Installing"
    _, reason, message = _read_condition(lab)
    assert reason == "MetalLBInstalling"
    assert message == (
        "installing MetalLB: waiting for CustomResourceDefinition ipaddresspools.metallb.io"
        " to be established"
    )
    assert _read_condition(lab, "LoadBalancerReady")[:2] == ("False", "MetalLBInstalling")


async def test_a_definition_that_says_nothing_of_itself_yet_is_waited_for() -> None:
    """An API server answers with `conditions: null` until it has looked at a new definition."""
    lab, tenant = _make_lab()

    def leave_unestablished(happening: WriteRecord) -> None:
        if happening.plural == "customresourcedefinitions":
            key = (happening.plural, "", happening.object["metadata"]["name"])
            tenant.objects[key]["status"] = {"conditions": None}

    tenant.listeners.append(leave_unestablished)
    await lab.run_rounds("a", 3)
    assert _read_condition(lab)[:2] == ("False", "MetalLBInstalling")
    assert "to be established" in _read_condition(lab)[2]


async def test_metallb_that_is_there_in_part_is_completed() -> None:
    lab, tenant = _make_lab()
    tenant.served = (*KINDS, "ipaddresspools")

    def complete(happening: WriteRecord) -> None:
        if happening.plural == "customresourcedefinitions" and "l2" not in str(tenant.served):
            tenant.served = (*tenant.served, "l2advertisements")
            conditions = [{"type": "Established", "status": "True"}]
            name = happening.object["metadata"]["name"]
            tenant.edit(
                happening.plural, name, {"status": {"conditions": conditions}}, namespace=""
            )

    tenant.listeners.append(complete)
    await lab.run_until_at_rest()
    assert tenant.all("deployments")
    assert tenant.all("l2advertisements")
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"


async def test_the_rest_is_applied_if_the_last_kind_is_established_after_metallbs_own() -> None:
    """Without its Deployment MetalLB does not run, so LoadBalancerReady is False meanwhile."""
    lab, tenant = _make_lab(BUNDLE + LAST_KIND)
    tenant.listeners.append(_establish(tenant))
    tenant.served = (*tenant.served, "servicebgpstatuses")  # this MetalLB counts addresses
    await lab.run_rounds("a", 5)
    assert "servicel2statuses.metallb.io to be established" in _read_condition(lab)[2]
    assert _read_condition(lab, "LoadBalancerReady")[:2] == ("False", "MetalLBNotRunning")
    assert not tenant.has(*KEY, namespace="metallb-system")
    _set_established(tenant, "servicel2statuses.metallb.io")
    began = lab.clock.monotonic()
    while not tenant.has(*KEY, namespace="metallb-system"):
        await _pass_when_due(lab)
        assert lab.clock.monotonic() - began < 30
    await _pass_when_due(lab)
    assert _read_condition(lab)[:2] == ("True", "Installed")


async def test_what_the_tenant_no_longer_refuses_is_applied_though_metallb_does_not_run() -> None:
    lab, tenant = _make_lab()
    tenant.listeners.append(_establish(tenant))
    tenant.served = (*tenant.served, "servicebgpstatuses")
    tenant.fail(Invalid(422, "Invalid", "spec is odd"), times=4, plural="deployments")
    await lab.run_rounds("a", 3)
    assert _read_condition(lab)[1] == "MetalLBInstallFailed"
    began = lab.clock.monotonic()
    while not tenant.has(*KEY, namespace="metallb-system"):
        await _pass_when_due(lab)
        assert lab.clock.monotonic() - began < 180
    assert _read_condition(lab)[:2] == ("True", "Installed")


async def test_an_update_waits_for_its_new_kinds_no_longer_than_an_installation() -> None:
    lab, tenant = _make_lab()
    tenant.listeners.append(_establish(tenant))
    await lab.run_until_at_rest()
    _make_bundle(lab, BUNDLE.replace("2026-01-01", "2027-01-01") + LAST_KIND)
    await lab.clock.advance(3601)
    await lab.run_cluster_pass()
    assert _read_condition(lab)[:2] == ("False", "MetalLBInstalling")
    _set_established(tenant, "servicel2statuses.metallb.io")
    outcome = await lab.run_cluster_pass()
    assert isinstance(outcome, Again)
    assert outcome.after <= 1.0
    await lab.clock.advance(outcome.after)
    await lab.run_cluster_pass()
    deployment = tenant.see(*KEY, namespace="metallb-system")
    assert deployment["spec"] == {"started": "2027-01-01"}
    assert _read_condition(lab)[:2] == ("True", "Installed")
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"


async def test_a_deployment_that_is_gone_is_restored_though_metallb_does_not_run() -> None:
    lab, tenant = _make_lab()
    tenant.listeners.append(_establish(tenant))
    await lab.run_until_at_rest()
    tenant.vanish(*KEY, namespace="metallb-system")
    tenant.served = (*tenant.served, "servicebgpstatuses")
    tenant.edit(
        "ipaddresspools",
        "default-pool",
        {"status": {"availableIPv4": 0, "assignedIPv4": 0}},
        namespace="metallb-system",
    )
    await lab.run_rounds("a", 12)
    assert _read_condition(lab, "LoadBalancerReady")[:2] == ("False", "MetalLBNotRunning")
    await lab.clock.advance(3601)
    await lab.run_cluster_pass()
    assert tenant.has(*KEY, namespace="metallb-system")


async def test_metallb_that_was_removed_and_installed_again_is_reported_as_installed() -> None:
    lab, tenant = _make_lab()
    tenant.listeners.append(_establish(tenant))
    await lab.run_until_at_rest()
    for plural in METALLB:
        for stored in tenant.all(plural):
            meta = stored["metadata"]
            tenant.vanish(plural, meta["name"], namespace=meta["namespace"])
    tenant.vanish("customresourcedefinitions", "ipaddresspools.metallb.io", namespace="")
    tenant.vanish(*KEY, namespace="metallb-system")
    tenant.served = KINDS
    await lab.run_rounds("a", 5)
    assert tenant.has(*KEY, namespace="metallb-system")
    assert _read_condition(lab)[:2] == ("True", "Installed")


async def test_without_a_bundle_metallb_that_is_there_in_part_is_said_to_be() -> None:
    lab, tenant = _make_lab()
    lab.server.vanish("configmaps", "metallb")
    tenant.served = (*KINDS, "ipaddresspools")
    await lab.run_rounds("a", 3)
    _, _, message = _read_condition(lab, "LoadBalancerReady")
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Installing"
    assert "404" not in message


async def test_an_applied_bundle_is_read_rarely_and_another_one_is_applied() -> None:
    lab, tenant = _make_lab()
    tenant.listeners.append(_establish(tenant))
    await lab.run_until_at_rest()
    lab.server.requests.clear()
    tenant.requests.clear()
    assert await lab.run_cluster_pass() == Again(60.0)
    assert lab.server.count(plural="configmaps") == tenant.count(plural="deployments") == 0
    _make_bundle(lab, BUNDLE.replace("2026-01-01", "2027-01-01"))
    await lab.clock.advance(3601)
    await lab.run_cluster_pass()
    deployment = tenant.see(*KEY, namespace="metallb-system")
    assert deployment["spec"] == {"started": "2027-01-01"}
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"


async def test_what_is_the_same_and_there_is_not_applied_again_and_what_is_gone_is() -> None:
    lab, tenant = _make_lab()
    tenant.listeners.append(_establish(tenant))
    await lab.run_until_at_rest()
    version = tenant.revision
    await lab.clock.advance(3601)
    await lab.run_cluster_pass()
    assert tenant.revision == version
    tenant.vanish(*KEY, namespace="metallb-system")
    await lab.clock.advance(3601)
    await lab.run_cluster_pass()
    assert tenant.has(*KEY, namespace="metallb-system")


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        (None, "it does not exist; create it, or name another one"),
        ("", "it is empty; put MetalLB's manifests into an entry of it"),
        ("---\n", "it has no objects; put MetalLB's manifests into an entry of it"),
        ("a: [", "entry 'metallb.yaml', line 1: this is not YAML"),
        ("a: !!bool x", "entry 'metallb.yaml': this is not YAML"),
        ("a: !!timestamp x", "entry 'metallb.yaml': this is not YAML"),
        (r'a: "\UFFFFFFFF"', "entry 'metallb.yaml': this is not YAML"),
        ("- a", "entry 'metallb.yaml', document 1: this is not an object;"),
        (
            "kind: X",
            "entry 'metallb.yaml', document 1: apiVersion is missing, or is not a string;",
        ),
        ("a: &x 1\nb: *x", "entry 'metallb.yaml': YAML aliases are not accepted; write it out"),
        ("[" * 70 + "]" * 70, "entry 'metallb.yaml' is nested more than 64 deep"),
        ("#" * 1_100_000, "it has more than 1048576 bytes"),
        (
            "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: default-pool}",
            "entry 'metallb.yaml', document 1: IPAddressPool default-pool is made by this",
        ),
    ],
)
async def test_a_bad_bundle_is_a_condition_with_a_clear_sentence(
    bundle: str | None, said: str
) -> None:
    lab, tenant = _make_lab(bundle)
    await lab.run_cluster_pass()
    await lab.run_pool_pass()
    assert await lab.run_cluster_pass() == Blocked("MetalLBBundleInvalid", 30.0)
    status, reason, message = _read_condition(lab)
    assert (status, reason) == ("False", "MetalLBBundleInvalid")
    assert message.startswith(f"ConfigMap butler-system/metallb: {said}")
    assert tenant.history == []


async def test_what_the_tenant_refuses_is_reported_by_name() -> None:
    lab, tenant = _make_lab()
    tenant.listeners.append(_establish(tenant))
    tenant.fail(Invalid(422, "Invalid", "spec is odd"), times=99, plural="deployments")
    await lab.run_until_at_rest()
    assert _read_condition(lab)[1:] == (
        "MetalLBInstallFailed",
        "MetalLB cannot be installed: Deployment controller: 422 Invalid: spec is odd",
    )


async def test_a_tenant_that_fails_affects_its_own_cluster_and_is_retried() -> None:
    lab, tenant = _make_lab()
    tenant.listeners.append(_establish(tenant))
    tenant.fail(ServerFailure(503, "", "starting"), plural="namespaces")
    await lab.run_rounds("a", 3)
    await lab.clock.advance(5)
    await lab.run_until_at_rest()
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"


async def test_where_another_controller_installs_we_do_not() -> None:
    lab, tenant = _make_lab()
    observed = {"managementPolicy": {"mode": "Observe"}}
    lab.server.add("tenantclusters", make.tenant(spec=observed))
    await lab.run_until_at_rest()
    assert tenant.history == []


@given(st.text(max_size=200))
def test_any_text_is_parsed_as_a_bundle_or_refused(content: str) -> None:
    with suppress(InvalidBundle):
        assert parse_bundle({"a": content}).manifests


async def test_kinds_that_are_never_established_are_looked_at_ever_less_often() -> None:
    lab, tenant = _make_lab()
    await lab.run_rounds("a", 3)
    applied = []
    for second in range(120):
        tenant.requests.clear()
        await lab.run_cluster_pass()
        if tenant.count(verb="patch", plural="customresourcedefinitions"):
            applied.append(second)
        await lab.clock.advance(1)
    assert applied == [0, 4, 12, 28, 60]
    assert _read_condition(lab)[1] == "MetalLBInstalling", "it says so all the while"
