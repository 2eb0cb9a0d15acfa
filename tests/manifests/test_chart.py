"""The objects that the chart renders: by values, and in comparison with kustomize."""

import json
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from envtest import ControlPlane
from manifests import rendering
from reconcilers.cli.run import run
from tests.manifests.helm import Chart, merge
from tests.manifests.overlays import write_overlay
from tests.manifests.valueschema import find_errors
from tests.manifests.valuesets import (
    DIGEST,
    LONGEST_NAME,
    ODD_ARGUMENTS,
    ODD_SETTINGS,
    REFUSED,
    VALUE_SETS,
    WITH_FOREIGN_KINDS,
)
from tests.yamls import read_all_yaml, read_yaml

MANIFESTS = Path(rendering.__file__).parent
CHART = MANIFESTS / "chart"
INSTALLER_LABELS = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/part-of",
    "helm.sh/chart",
    "helm.sh/resource-policy",
}


def render(**values: Any) -> dict[str, dict[str, Any]]:
    """Return the objects that the chart installs with values, by "Kind/name"; without hooks."""
    documents = Chart(CHART, values, release="butler-ipam", namespace="butler-system").documents()
    return {
        f"{document['kind']}/{document['metadata']['name']}": document
        for document in documents
        if not is_hook(document)
    }


def is_hook(obj: dict[str, Any]) -> bool:
    """Return whether an object is a hook, which Helm does not install with the release."""
    return "helm.sh/hook" in obj["metadata"].get("annotations", {})


def find_container(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the container of the Deployment in rendered objects."""
    main_container: dict[str, Any] = objects["Deployment/butler-ipam"]["spec"]["template"]["spec"][
        "containers"
    ][0]
    return main_container


def strip_install_labels(value: Any) -> Any:
    """Return an object without the labels and annotations that depend on the way of installing."""
    if isinstance(value, dict) and "kind" in value and "metadata" in value:
        labels = value["metadata"].get("labels", {})
        kept_labels = {k: v for k, v in labels.items() if not k.startswith("app.kubernetes.io/")}
        value = value | {"metadata": value["metadata"] | {"labels": kept_labels}}
    if isinstance(value, dict):
        stripped = {
            k: strip_install_labels(v) for k, v in value.items() if k not in INSTALLER_LABELS
        }
        return {
            k: v for k, v in stripped.items() if not (k in {"labels", "annotations"} and v == {})
        }
    return [strip_install_labels(item) for item in value] if isinstance(value, list) else value


def test_the_chart_installs_the_same_objects_as_kustomize() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine; its kustomize renders the other side")
    expected = {
        f"{document['kind']}/{document['metadata']['name']}": strip_install_labels(document)
        for document in read_all_yaml(rendering.render_folder(MANIFESTS / "default"))
        if document["kind"] != "Namespace"
    }
    assert {name: strip_install_labels(obj) for name, obj in render().items()} == expected


def test_the_image_can_be_named_by_tag_or_by_digest() -> None:
    assert find_container(render())["image"] == "butler-ipam:0.1.0"
    assert find_container(render(image={"repository": "r/i", "tag": "x"}))["image"] == "r/i:x"
    assert find_container(render(image={"digest": DIGEST}))["image"] == f"butler-ipam@{DIGEST}"


def test_settings_become_flags_that_the_command_knows() -> None:
    settings = {"growth-when-exhausted": "2s", "concurrency": 4}
    args = find_container(render(settings=settings))["args"]
    assert "--growth-when-exhausted=2s" in args
    assert "--concurrency=4" in args


@pytest.mark.parametrize("names", ["network,platform", ["network", "platform"]])
def test_a_setting_of_several_names_is_a_string_or_a_list(names: Any) -> None:
    values = {"settings": {"pool-namespaces": names}}
    assert list_schema_errors(values) == []
    assert "--pool-namespaces=network,platform" in find_container(render(**values))["args"]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"webhooks": {"certManager": {"enabled": True}}},
        {"metrics": {"secure": False}, "logging": {"level": "debug"}},
        {"ui": {"enabled": True, "certificateSecret": "tls"}},
    ],
)
def test_every_argument_of_the_pod_is_a_flag_of_the_command(values: dict[str, Any]) -> None:
    known = {flag for option in run.params for flag in option.opts}
    first, *args = find_container(render(**values))["args"]
    assert first == "run"
    assert {argument.partition("=")[0] for argument in args} <= known


def test_without_webhooks_no_object_and_no_port_of_webhooks_is_rendered() -> None:
    objects = render(webhooks={"enabled": False})
    assert not any("ebhook" in name for name in objects)
    assert [port["name"] for port in find_container(objects)["ports"]] == ["probes", "metrics"]


def test_the_page_is_served_on_request_with_its_service_and_roles() -> None:
    objects = render(ui={"enabled": True, "certificateSecret": "tls"})
    pod = find_container(objects)
    assert {"--ui-bind-address=:8090", "--ui-cert-dir=/ui-certificate"} <= set(pod["args"])
    [port] = [port for port in pod["ports"] if port["name"] == "ui"]
    assert port["containerPort"] == 8090
    assert objects["Service/butler-ipam-ui"]["spec"]["ports"][0]["targetPort"] == "ui"
    assert {"ClusterRole/butler-ipam-ui", "ClusterRole/butler-ipam-ui-reader"} <= set(objects)
    volumes = objects["Deployment/butler-ipam"]["spec"]["template"]["spec"]["volumes"]
    assert "tls" in {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    assert "ui" not in {port["name"] for port in find_container(render())["ports"]}
    assert "Service/butler-ipam-ui" not in render()


def test_the_chart_and_the_component_serve_the_page_alike(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine; its kustomize renders the other side")
    folder = write_overlay(tmp_path, "ui")
    expected = {
        f"{document['kind']}/{document['metadata']['name']}": strip_install_labels(document)
        for document in read_all_yaml(rendering.render_folder(folder))
        if document["kind"] != "Namespace"
    }
    rendered = {
        name: strip_install_labels(obj) for name, obj in render(ui={"enabled": True}).items()
    }
    assert sort_lists(rendered) == sort_lists(expected)


@pytest.mark.parametrize("peers", [[], [{"podSelector": {"matchLabels": {"a": "b"}}}]])
def test_a_network_policy_lets_readers_of_the_page_in(peers: list[Any]) -> None:
    values = {"enabled": True, "pageFrom": peers}
    policy = render(ui={"enabled": True}, networkPolicy=values)["NetworkPolicy/butler-ipam"]
    [rule] = [rule for rule in policy["spec"]["ingress"] if rule["ports"][0]["port"] == "ui"]
    assert rule.get("from", []) == peers
    without = render(networkPolicy=values)["NetworkPolicy/butler-ipam"]["spec"]["ingress"]
    assert not any(rule["ports"][0]["port"] == "ui" for rule in without)


def sort_lists(value: Any) -> Any:
    """Return a value with all its lists sorted, because the order of lists may differ."""
    if isinstance(value, dict):
        return {name: sort_lists(item) for name, item in value.items()}
    if isinstance(value, list):
        return sorted(map(sort_lists, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def test_the_role_for_listing_and_deleting_leases_is_rendered_only_with_shards() -> None:
    objects = render(settings={"shards": 8})
    assert "--shards=8" in find_container(objects)["args"]
    [rule] = objects["Role/butler-ipam-shards"]["rules"]
    assert {"list", "delete"} <= set(rule["verbs"])
    assert objects["RoleBinding/butler-ipam-shards"]["roleRef"]["name"] == "butler-ipam-shards"
    for without in (render(), render(settings={"shards": 8}, rbac={"create": False})):
        assert not any("shards" in name for name in without)


def test_cert_manager_issues_the_certificate_of_the_webhooks_on_request() -> None:
    objects = render(webhooks={"certManager": {"enabled": True}})
    assert {"Issuer/butler-ipam", "Certificate/butler-ipam-webhook"} <= set(objects)
    webhook = objects["ValidatingWebhookConfiguration/butler-ipam"]
    injected = webhook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert injected == "butler-system/butler-ipam-webhook"
    assert any(arg.startswith("--webhook-cert-dir=") for arg in find_container(objects)["args"])


def test_crds_outlive_the_release_by_default_and_can_be_left_out() -> None:
    kept = render()["CustomResourceDefinition/networkpools.butler.butlerlabs.dev"]
    assert kept["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    loose = render(crds={"keep": False})
    assert (
        "annotations"
        not in (loose["CustomResourceDefinition/networkpools.butler.butlerlabs.dev"]["metadata"])
    )
    assert not any("CustomResourceDefinition" in name for name in render(crds={"enable": False}))


def test_objects_for_prometheus_and_grafana_are_created_on_request() -> None:
    objects = render(
        metrics={
            "serviceMonitor": {"enabled": True, "labels": {"release": "mine"}},
            "rules": {"enabled": True},
            "dashboard": {"enabled": True},
        },
        networkPolicy={"enabled": True},
    )
    monitor = objects["ServiceMonitor/butler-ipam"]
    assert monitor["metadata"]["labels"]["release"] == "mine"
    service = objects["Service/butler-ipam-metrics"]
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    rule = read_yaml((MANIFESTS / "prometheus/alerts.yaml").read_text())
    assert objects["PrometheusRule/butler-ipam"]["spec"] == rule["spec"]
    elsewhere = render(
        metrics={"rules": {"enabled": True, "runbookUrl": "https://wiki.example/ipam"}}
    )
    texts = [
        alert["annotations"]["runbook_url"]
        for group in elsewhere["PrometheusRule/butler-ipam"]["spec"]["groups"]
        for alert in group["rules"]
        if "alert" in alert
    ]
    assert texts
    assert all(url.startswith("https://wiki.example/ipam#") for url in texts)
    dashboard = objects["ConfigMap/butler-ipam-dashboard"]["data"]["butler-ipam.json"]
    assert json.loads(dashboard)["uid"] == "butler-ipam"
    assert "NetworkPolicy/butler-ipam" in objects


FREE_FORM_VALUES = ("resources", "labels")
"""Names of values whose fields the chart does not define."""


def list_leaf_paths(
    values: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the paths of values that are not sections; `path` is the path of the section."""
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in FREE_FORM_VALUES:
            yield from list_leaf_paths(value, (*path, name))
        else:
            yield (*path, name)


def test_every_value_is_documented_and_in_the_schema() -> None:
    content = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())
    for path in list_leaf_paths(read_yaml(content)):
        at = schema
        for name in path:
            at = at["properties"][name]
        indent = "  " * (len(path) - 1)
        assert re.search(rf"^{indent}# -- .+\n{indent}{path[-1]}:", content, re.MULTILINE), path


def test_every_value_is_in_some_set_that_the_chart_is_tried_with() -> None:
    value_sets = [*VALUE_SETS.values(), *WITH_FOREIGN_KINDS.values()]
    value_paths = set(list_leaf_paths(read_yaml((CHART / "values.yaml").read_text())))
    for path in value_paths:
        assert any(sets_value(values, path) for values in value_sets), path


def sets_value(values: dict[str, Any], path: tuple[str, ...]) -> bool:
    """Return whether a set of values sets the value at a path."""
    at: Any = values
    for name in path:
        if name not in at:
            return False
        at = at[name]
    return True


def list_schema_errors(values: dict[str, Any]) -> list[str]:
    """Return the schema's errors about values that are merged into the defaults."""
    defaults = read_yaml((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    return list(find_errors(merge(defaults, values), schema))


def test_the_defaults_fit_the_schema() -> None:
    assert list_schema_errors({}) == []


@pytest.mark.parametrize("values", REFUSED, ids=str)
def test_invalid_values_are_rejected_with_one_error(values: dict[str, Any]) -> None:
    assert len(list_schema_errors(values)) == 1


def list_paths(values: dict[str, Any], *before: str) -> Iterator[tuple[str, ...]]:
    """Yield the path of every value and of every section; `before` is the path of `values`."""
    for name, value in values.items():
        yield (*before, name)
        if isinstance(value, dict):
            yield from list_paths(value, *before, name)


@pytest.mark.parametrize("value_set", ["defaults", "everything"])
def test_a_null_value_is_rejected_by_the_schema_or_renders(value_set: str) -> None:
    refused = []
    for path in list_paths(read_yaml((CHART / "values.yaml").read_text())):
        values = set_null({**VALUE_SETS, **WITH_FOREIGN_KINDS}[value_set], *path)
        if list_schema_errors(values):
            refused.append(path[-1])
        else:
            render(**values)  # raises if a template reads a field of null
    assert {"crds", "image", "webhooks", "certManager"} <= set(refused)
    assert not {"settings", "integrations", "resources", "limits", "podLabels"} & set(refused)


def set_null(values: dict[str, Any], name: str, *rest: str) -> dict[str, Any]:
    """Return values with null at a path."""
    return values | {name: set_null(values.get(name, {}), *rest) if rest else None}


def test_arguments_and_settings_reach_the_command_as_they_were_written() -> None:
    values = {"extraArgs": ODD_ARGUMENTS, "settings": ODD_SETTINGS, "priorityClassName": "123"}
    assert list_schema_errors(values) == []
    objects = render(**values)
    args = find_container(objects)["args"]
    assert args[-len(ODD_ARGUMENTS) :] == ODD_ARGUMENTS
    expected = {f"--{flag}={value}" for flag, value in ODD_SETTINGS.items() if value is not True}
    expected |= {"--tenant-allow-proxy=true"}
    assert expected <= set(args)
    assert objects["Deployment/butler-ipam"]["spec"]["template"]["spec"]["priorityClassName"] == (
        "123"
    )


def test_a_long_name_and_a_release_of_digits_make_valid_objects() -> None:
    values = {"fullnameOverride": LONGEST_NAME}
    assert list_schema_errors(values) == []
    objects = Chart(CHART, values, release="2024", namespace="butler-system").documents()
    services = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Service"]
    assert len(services) == 2
    assert all(len(name) <= 63 for name in services)
    for obj in objects:
        assert all(isinstance(v, str) for v in obj["metadata"].get("labels", {}).values())
        assert "-" * 2 not in obj["metadata"]["name"]


async def test_an_api_server_accepts_every_rendered_object() -> None:
    tried_documents = set()
    async with run_api_server() as (http, plurals):
        for values in VALUE_SETS.values():
            assert list_schema_errors(values) == []
            for document in Chart(
                CHART, values, release="butler-ipam", namespace="butler-system"
            ).documents():
                if (encoded := json.dumps(document)) in tried_documents:
                    continue
                tried_documents.add(encoded)
                version, kind = document["apiVersion"], document["kind"]
                path = f"/api/{version}" if "/" not in version else f"/apis/{version}"
                if "namespace" in document["metadata"]:
                    path += f"/namespaces/{document['metadata']['namespace']}"
                path += f"/{plurals[version, kind]}"
                query = {"dryRun": "All", "fieldValidation": "Strict"}
                answer = await http.post(path, params=query, json=document)
                name = f"{values}: {kind} {document['metadata']['name']}"
                assert answer.status_code == 201, f"{name}: {answer.text}"
                assert "Warning" not in answer.headers, name


@asynccontextmanager
async def run_api_server() -> AsyncIterator[tuple[httpx.AsyncClient, dict[tuple[str, str], str]]]:
    """Run an API server; yield a client, and each kind's plural by apiVersion and kind."""
    async with (
        ControlPlane.start() as plane,
        httpx.AsyncClient(
            base_url=plane.url,
            verify=plane.create_admin_tls(),
            headers=plane.build_admin_headers(),
            timeout=60,
        ) as http,
    ):
        await http.post("/api/v1/namespaces", json={"metadata": {"name": "butler-system"}})
        plurals: dict[tuple[str, str], str] = {}
        groups = (await http.get("/apis")).json()["groups"]
        versions = ["v1", *(v["groupVersion"] for group in groups for v in group["versions"])]
        for version in versions:
            prefix = "api" if "/" not in version else "apis"
            listed = (await http.get(f"/{prefix}/{version}")).json()["resources"]
            plurals |= {
                (version, resource["kind"]): resource["name"]
                for resource in listed
                if "/" not in resource["name"]
            }
        yield http, plurals


@pytest.mark.parametrize(
    ("path", "content"), list(rendering.render_files()), ids=lambda parameter: str(parameter)[-20:]
)
def test_generated_manifests_are_up_to_date(path: Path, content: str) -> None:
    assert path.read_text() == content, "run `make manifests`"
