"""A cluster accepts all manifests: CRDs, the one-file install, kustomize's folders, the samples.

Each is applied by a server-side dry run and then for good, on the server that the environment
selects and on the oldest supported Kubernetes. No process answers webhooks here, so no test writes
objects of our kinds while the webhooks are registered.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from manifests import rendering
from reconcilers.api import crd, names
from tests.contract.crd_rule_cases import without_rules
from tests.manifests.clusters import (
    HOME,
    MANIFESTS,
    NAMESPACES,
    Cluster,
    write_manifests,
)
from tests.manifests.overlays import COMPONENTS, write_overlay
from tests.reconcilers.cli.commandline import run
from tests.yamls import read_all_yaml, read_yaml

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEFINITIONS = MANIFESTS / "crds"
SAMPLES = [path for path in sorted((MANIFESTS / "samples").glob("*.yaml")) if path != NAMESPACES]
DEFINITION_NAMES = tuple(kind.crd_name for kind in crd.KINDS)
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def print_crds() -> str:
    """Return the output of `butler-ipam crds`."""
    outcome = run("crds")
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


def list_kustomization_folders() -> Iterator[str]:
    """Yield the names of kustomize folders except components, which cannot be applied alone."""
    for file in sorted(MANIFESTS.glob("*/[kK]ustomization*")):
        if read_yaml(file.read_text())["kind"] == "Kustomization":
            yield file.parent.name


async def uninstall_all(cluster: Cluster) -> None:
    """Delete our kinds with their objects, the webhooks, and HOME's Secrets and ConfigMaps."""
    namespace_path = f"/api/v1/namespaces/{HOME}"
    for path in (HOOKS, f"{namespace_path}/secrets", f"{namespace_path}/configmaps"):
        answer = await cluster.http.delete(path)
        assert answer.is_success, answer.text
    await cluster.undefine(*DEFINITION_NAMES)


@pytest_asyncio.fixture(loop_scope="module")
async def emptied_cluster(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The cluster without our kinds, webhooks and samples, at the test's start and end.

    kubectl warns if an object was applied client-side before and server-side now, or the reverse.
    """
    await uninstall_all(cluster)
    yield cluster
    await uninstall_all(cluster)


async def read_resource_versions(
    cluster: Cluster, documents: Iterable[dict[str, Any]]
) -> dict[str, str]:
    """Return the stored resourceVersion of each object of manifests, by "Kind/name"."""
    return {
        f"{obj['kind']}/{obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
        for obj in await cluster.read_stored(documents)
    }


@pytest.mark.parametrize(
    ("command", "piped"),
    [
        (("--server-side", "-k", "manifests/crds"), False),
        (("--server-side", "-f", "manifests/crds"), False),
        (("--server-side", "-f", "-"), True),
        (("-f", "-"), True),
    ],
    ids=lambda argument: " ".join(argument) if isinstance(argument, tuple) else "",
)
async def test_the_definitions_are_accepted_and_served(
    emptied_cluster: Cluster, command: tuple[str, ...], piped: bool
) -> None:
    input_text = print_crds() if piped else ""
    await emptied_cluster.kubectl("apply", *command, "--dry-run=server", stdin=input_text)
    await emptied_cluster.kubectl("apply", *command, stdin=input_text)
    for definition in await emptied_cluster.wait_until_established(*DEFINITION_NAMES):
        status = definition["status"]
        conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
        assert conditions == {"Established": "True", "NamesAccepted": "True"}
        assert status["acceptedNames"] == definition["spec"]["names"]
        assert status["storedVersions"] == ["v1alpha1"]


async def test_the_definitions_replace_those_of_another_installation(
    emptied_cluster: Cluster,
) -> None:
    """As in the guide's migration: another field manager applied CRDs and owns all fields."""
    foreign_definitions = write_manifests(
        *(without_rules(document) for document in read_all_yaml(print_crds()))
    )
    command = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    await emptied_cluster.kubectl(*command, stdin=foreign_definitions)
    before = collect_versions(await emptied_cluster.wait_until_established(*DEFINITION_NAMES))
    await emptied_cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", DEFINITIONS)
    after = collect_versions(await emptied_cluster.wait_until_established(*DEFINITION_NAMES))
    assert before != after
    assert after == collect_versions(read_all_yaml(print_crds()))


def collect_versions(definitions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the versions, with schemas, of each definition by its name."""
    return {
        definition["metadata"]["name"]: definition["spec"]["versions"]
        for definition in definitions
    }


async def test_kubectl_explains_every_kind_of_the_definitions(cluster: Cluster) -> None:
    await cluster.apply("-k", DEFINITIONS)
    await cluster.wait_until_established(*DEFINITION_NAMES)
    for kind in crd.KINDS:
        # kube-apiserver publishes OpenAPI schemas a moment after it serves the kind.
        output = await cluster.retry_kubectl("explain", kind.plural, "--recursive")
        assert kind.kind in output
        assert "spec\t<Object>" in output


async def test_the_one_file_install_is_accepted_and_a_second_apply_changes_nothing(
    cluster: Cluster,
) -> None:
    await cluster.apply("-f", rendering.INSTALL)
    await cluster.wait_until_established(*DEFINITION_NAMES)
    documents = [document for document in read_all_yaml(rendering.INSTALL.read_text()) if document]
    before = await read_resource_versions(cluster, documents)
    assert len(before) == len(documents)
    await cluster.kubectl("apply", "--server-side", "-f", rendering.INSTALL)
    assert await read_resource_versions(cluster, documents) == before


@pytest.mark.parametrize("folder", list(list_kustomization_folders()))
async def test_every_folder_of_kustomize_is_accepted(cluster: Cluster, folder: str) -> None:
    applied = read_yaml(await cluster.apply("-k", MANIFESTS / folder, "-o", "yaml"))
    documents = applied["items"] if applied["kind"] == "List" else [applied]
    assert await cluster.read_stored(documents)


async def render_folder(cluster: Cluster, folder: Path) -> list[dict[str, Any]]:
    """Return the objects that `kubectl kustomize` renders from a folder."""
    return list(read_all_yaml(await cluster.kubectl("kustomize", folder)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base_objects(cluster: Cluster) -> list[dict[str, Any]]:
    """The objects of the installation without components."""
    return await render_folder(cluster, MANIFESTS / "default")


@pytest.mark.parametrize("component", COMPONENTS)
async def test_the_objects_that_a_component_adds_are_accepted(
    with_stand_ins: Cluster, base_objects: list[dict[str, Any]], component: str, tmp_path: Path
) -> None:
    all_objects = await render_folder(with_stand_ins, write_overlay(tmp_path, component))
    added = [obj for obj in all_objects if obj not in base_objects]
    await with_stand_ins.apply(
        "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": added})
    )
    kinds = {obj["kind"] for obj in await with_stand_ins.read_stored(added)}
    assert COMPONENTS[component] <= kinds


async def test_the_install_with_all_components_is_accepted(
    with_stand_ins: Cluster, tmp_path: Path
) -> None:
    folder = write_overlay(tmp_path, *COMPONENTS)
    applied = read_yaml(await with_stand_ins.apply("-k", folder, "-o", "yaml"))
    applied_kinds = {obj["kind"] for obj in await with_stand_ins.read_stored(applied["items"])}
    assert applied_kinds >= {kind for kinds in COMPONENTS.values() for kind in kinds}


@pytest.mark.parametrize("flags", [("--server-side",), ()], ids=["server side", "client side"])
async def test_every_sample_is_accepted(emptied_cluster: Cluster, flags: tuple[str, ...]) -> None:
    await emptied_cluster.apply("-k", DEFINITIONS)
    await emptied_cluster.wait_until_established(*DEFINITION_NAMES)
    files = [f"--filename={file}" for file in SAMPLES]
    await emptied_cluster.kubectl("apply", *flags, "--dry-run=server", *files)
    await emptied_cluster.kubectl("apply", *flags, *files)
    content = "---\n".join(file.read_text() for file in SAMPLES)
    documents = list(read_all_yaml(content))
    assert len(await read_resource_versions(emptied_cluster, documents)) == len(documents)
    plurals = ",".join(kind.plural for kind in crd.KINDS)
    tables = (await emptied_cluster.kubectl("get", plurals, "-A", "-o", "wide")).split("\n\n")
    for kind, table in zip(crd.KINDS, tables, strict=True):
        assert [column.name.upper() for column in kind.columns] == split_headings(table)
    short_names = ",".join(kind.alias or kind.short for kind in crd.KINDS)
    resource_names = (
        await emptied_cluster.kubectl("get", short_names, "-A", "-o", "name")
    ).split()
    assert {line.partition("/")[0] for line in resource_names} == {
        f"{kind.kind.lower()}.{names.GROUP}" for kind in crd.KINDS
    }


def split_headings(table: str) -> list[str]:
    """Return the column headings of kubectl's table, without the first two: NAMESPACE and NAME."""
    words = [head.strip() for head in table.splitlines()[0].split("   ")]
    return [head for head in words if head][2:]


@pytest.mark.parametrize("is_admitted", [True, False])
async def test_pod_security_admits_the_deployments_pod_unless_the_pod_uses_the_host_network(
    cluster: Cluster, is_admitted: bool
) -> None:
    cluster.require_real("the embedded server has no Pod Security admission")
    await cluster.apply("-f", rendering.INSTALL)
    [deployment] = [
        document
        for document in read_all_yaml(rendering.INSTALL.read_text())
        if document["kind"] == "Deployment"
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", "namespace": HOME},
        "spec": deployment["spec"]["template"]["spec"],
    }
    if not is_admitted:
        pod["spec"]["hostNetwork"] = True
    command = ("create", "--dry-run=server", "-f", "-")
    code, _, error_output = await cluster.run("kubectl", *command, stdin=write_manifests(pod))
    assert (code == 0) is is_admitted, error_output
    assert ("violates PodSecurity" in error_output) is not is_admitted
    assert "Warning:" not in error_output
