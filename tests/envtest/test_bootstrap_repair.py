"""What a start repairs of the default roles in an older data folder."""

from pathlib import Path
from typing import Any

from tests.envtest.servers import started

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
MERGE = {"Content-Type": "application/merge-patch+json"}


async def test_a_start_repairs_default_roles(tmp_path: Path) -> None:
    dns, proxier = f"{ROLES}/system:kube-dns", f"{ROLES}/system:node-proxier"
    own = {"apiGroups": ["lab"], "resources": ["gauges"], "verbs": ["get"]}
    partly = {"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}
    async with started(tmp_path) as http:
        before = (await http.get(f"{ROLES}/system:kube-aggregator")).json()
        await http.delete(f"{ROLES}/system:kube-aggregator")
        labels = {"kubernetes.io/bootstrapping": None, "mine": "1"}
        body = {"rules": [partly, own], "metadata": {"labels": labels}}
        await http.patch(dns, json=body, headers=MERGE)
        alone = {"rules": [], "metadata": {"annotations": {AUTOUPDATE: "false"}}}
        await http.patch(proxier, json=alone, headers=MERGE)
        untouched = (await http.get(f"{ROLES}/system:node")).json()
    async with started(tmp_path) as http:
        again = (await http.get(f"{ROLES}/system:kube-aggregator")).json()
        repaired = (await http.get(dns)).json()
        left = (await http.get(proxier)).json()
        same = (await http.get(f"{ROLES}/system:node")).json()

    assert again["rules"] == before["rules"]
    assert again["metadata"]["uid"] != before["metadata"]["uid"]
    # Each right that was missing becomes a rule of its own.
    assert repaired["rules"] == [
        partly,
        own,
        {"apiGroups": [""], "resources": ["endpoints"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["endpoints"], "verbs": ["watch"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["watch"]},
    ]
    assert repaired["metadata"]["labels"] == {
        "kubernetes.io/bootstrapping": "rbac-defaults",
        "mine": "1",
    }
    assert not left["rules"]
    assert same == untouched


async def test_a_start_repairs_default_bindings(tmp_path: Path) -> None:
    dns, user = f"{BINDINGS}/system:kube-dns", f"{BINDINGS}/system:basic-user"
    discovery, lost = f"{BINDINGS}/system:discovery", f"{BINDINGS}/system:monitoring"
    joe = {"kind": "User", "name": "joe", "apiGroup": "rbac.authorization.k8s.io"}
    async with started(tmp_path) as http:
        await http.patch(dns, json={"subjects": [joe]}, headers=MERGE)
        alone = {"subjects": None, "metadata": {"annotations": {AUTOUPDATE: "false"}}}
        await http.patch(user, json=alone, headers=MERGE)
        await http.delete(lost)
        found = (await http.get(discovery)).json()
        await http.delete(discovery)
        del found["metadata"]["resourceVersion"], found["metadata"]["uid"]
        await http.post(BINDINGS, json={**found, "roleRef": {**found["roleRef"], "name": "view"}})
    async with started(tmp_path) as http:
        repaired, left, back, turned = [
            (await http.get(one)).json() for one in (dns, user, lost, discovery)
        ]

    account = {"kind": "ServiceAccount", "name": "kube-dns", "namespace": "kube-system"}
    assert repaired["subjects"] == [joe, account]
    assert "subjects" not in left
    assert back["subjects"][0]["name"] == "system:monitoring"
    assert turned["roleRef"]["name"] == "system:discovery"


async def test_a_start_repairs_what_roles_are_made_of(tmp_path: Path) -> None:
    lab = {"matchLabels": {"lab": "1"}}
    rules = {"aggregationRule": {"clusterRoleSelectors": [lab]}}
    no_rule: dict[str, Any] = {"aggregationRule": {"clusterRoleSelectors": [lab]}}
    async with started(tmp_path) as http:
        await http.patch(f"{ROLES}/view", json=rules, headers=MERGE)
        await http.patch(f"{ROLES}/system:node", json=no_rule, headers=MERGE)
    async with started(tmp_path) as http:
        view = (await http.get(f"{ROLES}/view")).json()
        node = (await http.get(f"{ROLES}/system:node")).json()

    own = {"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}
    assert view["aggregationRule"]["clusterRoleSelectors"] == [lab, own]
    assert any("configmaps" in rule.get("resources", ()) for rule in view["rules"])
    assert "aggregationRule" not in node


async def test_a_start_leaves_what_is_right_as_it_is(tmp_path: Path) -> None:
    revisions = []
    for _ in range(2):
        async with started(tmp_path) as http:
            found = (await http.get(ROLES)).json()["items"]
            revisions.append([one["metadata"]["resourceVersion"] for one in found])

    assert revisions[0] == revisions[1]
