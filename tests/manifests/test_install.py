"""The kustomize tree, the one-file install and the alert rules."""

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


def read_documents(path: Path) -> list[dict[str, Any]]:
    """Return the objects in a YAML file."""
    return [document for document in read_all_yaml(path.read_text()) if document]


def read_one_file_install() -> dict[str, dict[str, Any]]:
    """Return the objects of the one-file install, by "Kind/name"."""
    loaded = read_documents(rendering.INSTALL)
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in loaded}


def test_the_one_file_install_is_the_output_of_kustomize() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine; the one-file install is not rendered anew")
    rendered = [
        document
        for document in read_all_yaml(rendering.render_folder(MANIFESTS / "default"))
        if document
    ]
    assert read_documents(rendering.INSTALL) == rendered, "run `make manifests`"


def test_every_component_of_the_tree_is_in_the_list_of_tested_components() -> None:
    files = MANIFESTS.glob("*/[kK]ustomization*")
    components = {file.parent.name for file in files if "kind: Component\n" in file.read_text()}
    assert components == set(COMPONENTS)


def test_every_manifest_of_the_tree_is_in_the_install_or_in_a_component() -> None:
    installed_names = set(read_one_file_install())
    for folder in ("crds", "manager", "rbac", "webhook"):
        for path in (MANIFESTS / folder).glob("*.yaml"):
            for document in read_documents(path):
                if document["kind"] != "Kustomization":
                    assert (
                        f"{document['kind']}/{document['metadata']['name']}" in installed_names
                    ), path


def test_the_pod_passes_the_restricted_security_standard() -> None:
    pod = read_one_file_install()["Deployment/butler-ipam"]["spec"]["template"]["spec"]
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
    namespace = read_one_file_install()["Namespace/butler-system"]
    enforced = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == "restricted"


def test_only_the_controller_may_write_a_pools_status() -> None:
    for name, obj in read_one_file_install().items():
        if obj["kind"] not in {"ClusterRole", "Role"} or name.endswith("butler-ipam-manager"):
            continue
        for rule in obj["rules"]:
            if "networkpools/status" in rule.get("resources", []):
                assert rule["verbs"] == ["get"], name


def test_no_role_has_a_wildcard_or_lists_secrets() -> None:
    for name, obj in read_one_file_install().items():
        if obj["kind"] not in {"ClusterRole", "Role"}:
            continue
        for rule in obj["rules"]:
            for part in ("apiGroups", "resources", "verbs"):
                assert "*" not in rule.get(part, []), name
            if "secrets" in rule.get("resources", []) and "resourceNames" not in rule:
                assert {"list", "watch"}.isdisjoint(rule["verbs"]), name


def test_the_termination_grace_period_is_longer_than_the_managers_own() -> None:
    from controller.options import ManagerOptions

    pod = read_one_file_install()["Deployment/butler-ipam"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > ManagerOptions().grace_seconds


def test_alert_rules_pass_their_unit_tests(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on this machine (Debian: prometheus); the rules are not tested")
    [rule] = read_documents(MANIFESTS / "prometheus/alerts.yaml")
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


def read_alerts() -> list[dict[str, Any]]:
    """Return the alert rules, without recording rules."""
    [rule] = read_documents(MANIFESTS / "prometheus/alerts.yaml")
    return [
        alert_rule
        for group in rule["spec"]["groups"]
        for alert_rule in group["rules"]
        if "alert" in alert_rule
    ]


def test_every_alert_has_a_severity_a_summary_a_runbook_and_a_unit_test() -> None:
    guide = (ROOT / "docs/operating/runbooks.md").read_text()
    unit_tests = (ROOT / "tests/data/alerts/alerts_test.yaml").read_text()
    for alert in read_alerts():
        name = alert["alert"]
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}
        assert alert["annotations"]["summary"]
        assert alert["annotations"]["description"]
        assert alert["annotations"]["runbook_url"] == f"{RUNBOOKS_URL}#{name.lower()}"
        assert f"### {name}\n" in guide, f"there is no runbook for {name}"
        assert name in unit_tests, f"{name} has no unit test"


def test_the_service_monitor_honors_the_namespace_label_of_series() -> None:
    """Without honorLabels, Prometheus renames a label of a series that the target also has."""
    [monitor] = read_documents(MANIFESTS / "prometheus/service-monitor.yaml")
    assert all(endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"])


def test_the_samples_and_the_install_define_the_same_namespace() -> None:
    [sample] = [
        document
        for document in read_documents(MANIFESTS / "samples/00-namespaces.yaml")
        if document["metadata"]["name"] == "butler-system"
    ]
    assert sample == read_one_file_install()["Namespace/butler-system"]
