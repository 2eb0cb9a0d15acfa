"""The role of the integration: it suffices for all that claims need, and all of it is needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from envtest import ControlPlane
from envtest.faults import LateRequest, Match, Pause, Proxy, Refusal
from envtest.plane import RunningControlPlane as Plane
from envtest.settings import read_settings
from reconcilers.integrations.clusterapi import crds
from tests.contract.clusterapi.lab import IPAM, PATHS, Lab, condition
from tests.contract.conftest import administrator
from tests.contract.product import ACCOUNT, install_kinds, product, under_shipped_roles
from tests.contract.roles import Rule, rules
from tests.polling import SECONDS, until

POOLS: dict[str, dict[str, Any]] = {
    "InClusterIPPool": {"addresses": ["10.0.0.10"], "prefix": 24},
    "GlobalInClusterIPPool": {"addresses": ["10.0.1.10"], "prefix": 24},
    "InClusterPrefixPool": {"prefixes": ["2001:db8:a::/64"]},
    "GlobalInClusterPrefixPool": {"prefixes": ["2001:db8:b::/64"]},
}
"""A pool of each kind, with one thing to hand out."""


@pytest.mark.slow
async def test_claims_need_every_rule_of_the_shipped_role_and_no_other(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await install_kinds(plane, "clusterapi", crds.crds())
    lab, log = Lab(admin, "machines"), tmp_path / "log"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lab.namespace}}
    assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
    async with Proxy.before(plane) as proxy:
        kubeconfig = await under_shipped_roles(
            proxy, admin, where=tmp_path, integration="clusterapi"
        )
        with older(proxy), product("clusterapi", kubeconfig, log):
            for kind in POOLS:
                await edited_while_it_is_written(lab, proxy, kind)
                await served_and_released(lab, kind)
            await remove_by_force(lab, proxy)
            await waiting_for_its_cluster(lab)
    said = await anyio.Path(log).read_text(encoding="utf-8")
    assert "403 Forbidden" not in said, "the shipped role does not suffice"
    calls = list(proxy.calls)
    unused = {rule for rule in rules("clusterapi") if not any(rule.covers(call) for call in calls)}
    needless = sorted(str(rule) for rule in unused if not is_asked_by_admission(rule))
    assert not needless, "\n".join(needless)


def is_asked_by_admission(rule: Rule) -> bool:
    """Return whether the API server asks for a rule by itself, in the name of who sets owners."""
    return rule.verb == "update" and rule.resource.endswith("/finalizers")


@contextmanager
def older(proxy: Proxy) -> Iterator[None]:
    """Have the server refuse what those refuse that cannot stream lists: then kinds are listed."""
    message = "sendInitialEvents: Forbidden: forbidden unless WatchList is enabled"
    streamed = Match(where=lambda call: "sendInitialEvents" in call.query)
    with proxy.inject(Refusal(422, "Invalid", message), streamed):
        yield


async def edited_while_it_is_written(lab: Lab, proxy: Proxy, kind: str) -> None:
    """Edit a pool while the product writes it: after the conflict it is read live."""
    written, plural = anyio.Event(), PATHS[kind].rpartition("/")[2]
    pause = LateRequest(Pause(until=written))
    first = Match(verb="patch", resource=plural, subresource="", times=1)
    with proxy.inject(pause, first):
        await lab.create(kind, "p", POOLS[kind])
        with anyio.fail_after(SECONDS):
            await proxy.injected.wait(1, lambda injected: injected[0] is pause)
        await lab.patch(kind, "p", {"metadata": {"labels": {"edited": "yes"}}})
        written.set()


ENFORCED = "OwnerReferencesPermissionEnforcement"
"""The admission plugin that asks who sets an owner whether it may block that one's deletion."""
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/butler-ipam-clusterapi"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest.fixture
def enforcing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kube-apiserver run with the plugin, as on OpenShift."""
    real = read_settings().apiserver
    if real is None:
        pytest.skip(f"the embedded server has no {ENFORCED}; set KUBEBUILDER_ASSETS")
    wrapped = tmp_path / "kube-apiserver"
    wrapped.write_text(f'#!/bin/sh\nexec "{real}" --enable-admission-plugins={ENFORCED} "$@"\n')
    wrapped.chmod(0o755)
    monkeypatch.setenv("TEST_ASSET_KUBE_APISERVER", str(wrapped))


@pytest.mark.slow
@pytest.mark.usefixtures("enforcing")
async def test_addresses_get_their_owners_only_by_the_rules_about_finalizers(
    tmp_path: Path,
) -> None:
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install_kinds(plane, "clusterapi", crds.crds())
        lab = Lab(admin, "machines")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lab.namespace}}
        assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
        kubeconfig = await under_shipped_roles(
            plane, admin, where=tmp_path, integration="clusterapi"
        )
        with product("clusterapi", kubeconfig, tmp_path / "log"):
            await lab.create("NetworkPool", "q", {"cidr": "10.2.0.8/29"})
            await refused_without(lab, "NetworkPool", "ipaddressclaims", of="q")
            for kind, spec in {**POOLS, "NetworkPool": {"cidr": "10.2.0.0/29"}}.items():
                plural = PATHS[kind].rpartition("/")[2]
                await lab.create(kind, "p", spec)
                await refused_without(lab, kind, plural)
                await lab.claim(kind.lower(), "p", kind)
                await lab.wait_until_served(kind.lower())


async def refused_without(lab: Lab, kind: str, plural: str, of: str = "p") -> None:
    """Have a claim refused because the role lacks the rule about finalizers of a kind."""
    body = (await lab.admin.get(ROLE)).json()
    kept = body["rules"]
    expected = f"{plural}/finalizers"
    less = [
        {**rule, "resources": [resource for resource in rule["resources"] if resource != expected]}
        for rule in kept
    ]
    assert less != kept
    await change(lab, [rule for rule in less if rule["resources"]])
    await may(lab, expected, kind, expected=False)
    name = f"{kind.lower()}-{plural}"
    await lab.claim(name, of, kind)
    said = await lab.says(name, "AllocationFailed")
    assert "cannot set blockOwnerDeletion" in condition(said)["message"]
    await lab.delete("IPAddressClaim", name)
    await lab.wait_until_gone("IPAddressClaim", name)
    await change(lab, kept)
    await may(lab, expected, kind, expected=True)


async def change(lab: Lab, kept: list[Any]) -> None:
    """Change the rules of the role."""
    headers = {"Content-Type": "application/merge-patch+json"}
    answer = await lab.admin.patch(ROLE, json={"rules": kept}, headers=headers)
    assert answer.status_code == 200, answer.text


async def may(lab: Lab, resource: str, kind: str, *, expected: bool) -> None:
    """Wait until the API server goes by the role as it is."""
    plural, _, sub = resource.partition("/")
    group = PATHS[kind].partition("/")[0] if plural != "ipaddressclaims" else IPAM
    asked = {
        "verb": "update",
        "group": group,
        "resource": plural,
        "subresource": sub,
        "namespace": lab.namespace,
    }
    body = {"spec": {"user": ACCOUNT, "resourceAttributes": asked}}

    async def is_allowed() -> bool:
        response = await lab.admin.post(REVIEWS, json=body)
        return bool(response.json()["status"]["allowed"])

    await until(is_allowed, lambda allowed: allowed is expected)


async def served_and_released(lab: Lab, kind: str) -> None:
    """Have one claim served, one refused, and both deleted."""
    name = kind.lower()
    await lab.claim(name, "p", kind)
    await lab.wait_until_served(name)
    await lab.claim(f"{name}-late", "p", kind)
    await lab.says(f"{name}-late", "PoolExhausted")
    for claim_name in (f"{name}-late", name):
        await lab.delete("IPAddressClaim", claim_name)
        await lab.wait_until_gone("IPAddressClaim", claim_name)


async def remove_by_force(lab: Lab, proxy: Proxy) -> None:
    """Take a claim away by force: its IPAddress goes after a live read of it.

    Meanwhile the product cannot put the finalizer back.
    """
    await lab.claim("forced", "p")
    await lab.wait_until_served("forced")
    gone = anyio.Event()
    writes = Match(verb="patch", resource="ipaddressclaims")
    with proxy.inject(LateRequest(Pause(until=gone)), writes):
        await lab.patch("IPAddressClaim", "forced", {"metadata": {"finalizers": None}})
        await lab.delete("IPAddressClaim", "forced")
        gone.set()
        await lab.wait_until_gone("IPAddress", "forced")


async def waiting_for_its_cluster(lab: Lab) -> None:
    """Have a claim served once its Cluster is not paused any more."""
    await lab.create("Cluster", "c", {"paused": True})
    await lab.claim("of-cluster", "p", cluster="c")
    await lab.patch("Cluster", "c", {"spec": {"paused": False}})
    await lab.wait_until_served("of-cluster")
