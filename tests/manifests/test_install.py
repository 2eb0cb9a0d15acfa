"""The kustomize tree, the one-file install, the alert rules: what a cluster is told."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests import rendering
from tests.docs.text import RUNBOOKS_URL
from tests.manifests.overlays import COMPONENTS
from tests.yamls import read_all_yaml

MANIFESTS = Path(rendering.__file__).parent
ROOT = MANIFESTS.parent


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in read_all_yaml(path.read_text()) if document]


def list_installed() -> dict[str, dict[str, Any]]:
    loaded = documents(rendering.INSTALL)
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in loaded}


def test_the_one_file_install_is_what_kustomize_renders() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine; the one-file install is not rendered anew")
    anew = [
        document
        for document in read_all_yaml(rendering.render_folder(MANIFESTS / "default"))
        if document
    ]
    assert documents(rendering.INSTALL) == anew, "run `make manifests`"


def test_every_component_is_tried() -> None:
    files = MANIFESTS.glob("*/[kK]ustomization*")
    components = {file.parent.name for file in files if "kind: Component\n" in file.read_text()}
    assert components == set(COMPONENTS)


def test_every_manifest_of_the_tree_is_in_the_install_or_in_a_component() -> None:
    have = set(list_installed())
    for folder in ("crds", "manager", "rbac", "webhook"):
        for path in (MANIFESTS / folder).glob("*.yaml"):
            for document in documents(path):
                if document["kind"] != "Kustomization":
                    assert f"{document['kind']}/{document['metadata']['name']}" in have, path


def test_the_pod_passes_the_restricted_security_standard() -> None:
    pod = list_installed()["Deployment/butler-ipam"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    [manager] = pod["containers"]
    assert manager["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(pod)
    assert all("hostPath" not in volume for volume in pod["volumes"])
    namespace = list_installed()["Namespace/butler-system"]
    enforced = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == "restricted"


def test_only_the_controller_may_write_a_pools_status() -> None:
    for name, obj in list_installed().items():
        if obj["kind"] not in {"ClusterRole", "Role"} or name.endswith("butler-ipam-manager"):
            continue
        for rule in obj["rules"]:
            if "networkpools/status" in rule.get("resources", []):
                assert rule["verbs"] == ["get"], name


def test_no_role_has_a_wildcard_or_lists_secrets() -> None:
    for name, obj in list_installed().items():
        if obj["kind"] not in {"ClusterRole", "Role"}:
            continue
        for rule in obj["rules"]:
            for part in ("apiGroups", "resources", "verbs"):
                assert "*" not in rule.get(part, []), name
            if "secrets" in rule.get("resources", []) and "resourceNames" not in rule:
                assert {"list", "watch"}.isdisjoint(rule["verbs"]), name


def test_grace_is_longer_than_an_orderly_end_takes() -> None:
    from controller.options import ManagerOptions

    pod = list_installed()["Deployment/butler-ipam"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > ManagerOptions().grace_seconds


def test_alert_rules_pass_their_unit_tests(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on this machine (Debian: prometheus); the rules are not tested")
    [rule] = documents(MANIFESTS / "prometheus/alerts.yaml")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    shutil.copy(ROOT / "tests/data/alerts/alerts_test.yaml", tmp_path)
    done = subprocess.run(
        [promtool, "test", "rules", "alerts_test.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def alerts() -> list[dict[str, Any]]:
    [rule] = documents(MANIFESTS / "prometheus/alerts.yaml")
    return [
        alert_rule
        for group in rule["spec"]["groups"]
        for alert_rule in group["rules"]
        if "alert" in alert_rule
    ]


def test_every_alert_has_a_severity_a_summary_a_runbook_and_a_unit_test() -> None:
    guide = (ROOT / "docs/operating/runbooks.md").read_text()
    tested = (ROOT / "tests/data/alerts/alerts_test.yaml").read_text()
    for alert in alerts():
        name = alert["alert"]
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}
        assert alert["annotations"]["summary"]
        assert alert["annotations"]["description"]
        assert alert["annotations"]["runbook_url"] == f"{RUNBOOKS_URL}#{name.lower()}"
        assert f"### {name}\n" in guide, f"there is no runbook for {name}"
        assert name in tested, f"{name} has no unit test"


def test_a_series_keeps_the_namespace_of_its_object_when_it_is_scraped() -> None:
    """Prometheus renames a label that its target has too, unless it is told to honor it."""
    [monitor] = documents(MANIFESTS / "prometheus/service-monitor.yaml")
    assert all(endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"])


def test_the_samples_take_nothing_from_the_namespace_that_was_installed() -> None:
    [sample] = [
        document
        for document in documents(MANIFESTS / "samples/00-namespaces.yaml")
        if document["metadata"]["name"] == "butler-system"
    ]
    assert sample == list_installed()["Namespace/butler-system"]
