"""The integration's shipped role has every permission that claims need, and no other."""

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
from tests.contract.clusterapi.lab import IPAM, PATHS, ClusterApiLab, find_condition
from tests.contract.conftest import administrator
from tests.contract.product import ACCOUNT, install_kinds, product, under_shipped_roles
from tests.contract.roles import Rule, list_rules
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
    await install_kinds(plane, "clusterapi", crds.build_pool_crds())
    lab, log = ClusterApiLab(admin, "machines"), tmp_path / "log"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lab.namespace}}
    assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
    async with Proxy.run_before(plane) as proxy:
        kubeconfig = await under_shipped_roles(
            proxy, admin, where=tmp_path, integration="clusterapi"
        )
        with refuse_streamed_lists(proxy), product("clusterapi", kubeconfig, log):
            for kind in POOLS:
                await edit_pool_during_its_write(lab, proxy, kind)
                await serve_and_release(lab, kind)
            await remove_by_force(lab, proxy)
            await serve_after_pause(lab)
    logged = await anyio.Path(log).read_text(encoding="utf-8")
    assert "403 Forbidden" not in logged, "the shipped role does not suffice"
    calls = list(proxy.calls)
    unused = {
        rule for rule in list_rules("clusterapi") if not any(rule.covers(call) for call in calls)
    }
    needless = sorted(str(rule) for rule in unused if not is_checked_by_admission(rule))
    assert not needless, "\n".join(needless)


def is_checked_by_admission(rule: Rule) -> bool:
    """Return whether only an admission plugin checks a rule, so that no request needs it here.

    OwnerReferencesPermissionEnforcement checks it when a client sets an owner reference.
    """
    return rule.verb == "update" and rule.resource.endswith("/finalizers")


@contextmanager
def refuse_streamed_lists(proxy: Proxy) -> Iterator[None]:
    """Refuse streamed lists, as API servers without WatchList do, so that kinds are listed."""
    message = "sendInitialEvents: Forbidden: forbidden unless WatchList is enabled"
    streamed = Match(where=lambda call: "sendInitialEvents" in call.query)
    with proxy.inject(Refusal(422, "Invalid", message), streamed):
        yield


async def edit_pool_during_its_write(lab: ClusterApiLab, proxy: Proxy, kind: str) -> None:
    """Edit a pool between the decision and the write of the controllers, so that they conflict."""
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
"""The admission plugin that asks whether a client may set blockOwnerDeletion for an owner."""
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/butler-ipam-clusterapi"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest.fixture
def with_owner_enforcement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every kube-apiserver of the test with the plugin ENFORCED, as OpenShift does."""
    real = read_settings().apiserver
    if real is None:
        pytest.skip(f"the embedded server has no {ENFORCED}; set KUBEBUILDER_ASSETS")
    wrapped = tmp_path / "kube-apiserver"
    wrapped.write_text(f'#!/bin/sh\nexec "{real}" --enable-admission-plugins={ENFORCED} "$@"\n')
    wrapped.chmod(0o755)
    monkeypatch.setenv("TEST_ASSET_KUBE_APISERVER", str(wrapped))


@pytest.mark.slow
@pytest.mark.usefixtures("with_owner_enforcement")
async def test_claims_fail_without_the_rule_about_finalizers_of_their_owners(
    tmp_path: Path,
) -> None:
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install_kinds(plane, "clusterapi", crds.build_pool_crds())
        lab = ClusterApiLab(admin, "machines")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lab.namespace}}
        assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
        kubeconfig = await under_shipped_roles(
            plane, admin, where=tmp_path, integration="clusterapi"
        )
        with product("clusterapi", kubeconfig, tmp_path / "log"):
            await lab.create("NetworkPool", "q", {"cidr": "10.2.0.8/29"})
            await check_refused_without_rule(lab, "NetworkPool", "ipaddressclaims", pool="q")
            for kind, spec in {**POOLS, "NetworkPool": {"cidr": "10.2.0.0/29"}}.items():
                plural = PATHS[kind].rpartition("/")[2]
                await lab.create(kind, "p", spec)
                await check_refused_without_rule(lab, kind, plural)
                await lab.create_claim(kind.lower(), "p", kind)
                await lab.wait_until_served(kind.lower())


async def check_refused_without_rule(
    lab: ClusterApiLab, kind: str, plural: str, pool: str = "p"
) -> None:
    """Check that a claim fails while the role lacks the rule about finalizers of a kind.

    Args:
        lab: the objects.
        kind: of the pool of the claim.
        plural: of the kind whose rule is removed.
        pool: the name of the pool.
    """
    body = (await lab.admin.get(ROLE)).json()
    all_rules = body["rules"]
    subresource = f"{plural}/finalizers"
    reduced_rules = [
        {
            **rule,
            "resources": [resource for resource in rule["resources"] if resource != subresource],
        }
        for rule in all_rules
    ]
    assert reduced_rules != all_rules
    await patch_role_rules(lab, [rule for rule in reduced_rules if rule["resources"]])
    await wait_for_permission(lab, subresource, kind, allowed=False)
    name = f"{kind.lower()}-{plural}"
    await lab.create_claim(name, pool, kind)
    waiting_claim = await lab.wait_for_reason(name, "AllocationFailed")
    assert "cannot set blockOwnerDeletion" in find_condition(waiting_claim)["message"]
    await lab.delete("IPAddressClaim", name)
    await lab.wait_until_gone("IPAddressClaim", name)
    await patch_role_rules(lab, all_rules)
    await wait_for_permission(lab, subresource, kind, allowed=True)


async def patch_role_rules(lab: ClusterApiLab, rules: list[Any]) -> None:
    """Replace the rules of the ClusterRole."""
    headers = {"Content-Type": "application/merge-patch+json"}
    answer = await lab.admin.patch(ROLE, json={"rules": rules}, headers=headers)
    assert answer.status_code == 200, answer.text


async def wait_for_permission(
    lab: ClusterApiLab, subresource: str, kind: str, *, allowed: bool
) -> None:
    """Wait until the API server allows, or denies, the controllers the update of a subresource."""
    plural, _, sub = subresource.partition("/")
    group = PATHS[kind].partition("/")[0] if plural != "ipaddressclaims" else IPAM
    attributes = {
        "verb": "update",
        "group": group,
        "resource": plural,
        "subresource": sub,
        "namespace": lab.namespace,
    }
    body = {"spec": {"user": ACCOUNT, "resourceAttributes": attributes}}

    async def is_allowed() -> bool:
        response = await lab.admin.post(REVIEWS, json=body)
        return bool(response.json()["status"]["allowed"])

    await until(is_allowed, lambda answer: answer is allowed)


async def serve_and_release(lab: ClusterApiLab, kind: str) -> None:
    """Have one claim served and one wait for the full pool, and delete both."""
    name = kind.lower()
    await lab.create_claim(name, "p", kind)
    await lab.wait_until_served(name)
    await lab.create_claim(f"{name}-late", "p", kind)
    await lab.wait_for_reason(f"{name}-late", "PoolExhausted")
    for claim_name in (f"{name}-late", name):
        await lab.delete("IPAddressClaim", claim_name)
        await lab.wait_until_gone("IPAddressClaim", claim_name)


async def remove_by_force(lab: ClusterApiLab, proxy: Proxy) -> None:
    """Delete a claim by removing its finalizer; its IPAddress is deleted after a live read.

    The controllers' patches of claims wait meanwhile, so they cannot restore the finalizer.
    """
    await lab.create_claim("forced", "p")
    await lab.wait_until_served("forced")
    gone = anyio.Event()
    writes = Match(verb="patch", resource="ipaddressclaims")
    with proxy.inject(LateRequest(Pause(until=gone)), writes):
        await lab.patch("IPAddressClaim", "forced", {"metadata": {"finalizers": None}})
        await lab.delete("IPAddressClaim", "forced")
        gone.set()
        await lab.wait_until_gone("IPAddress", "forced")


async def serve_after_pause(lab: ClusterApiLab) -> None:
    """Have a claim served once its Cluster is no longer paused."""
    await lab.create("Cluster", "c", {"paused": True})
    await lab.create_claim("of-cluster", "p", cluster="c")
    await lab.patch("Cluster", "c", {"spec": {"paused": False}})
    await lab.wait_until_served("of-cluster")
