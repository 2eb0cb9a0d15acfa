"""What kubectl applies, a cluster takes: CRDs, the one-file install, kustomize's folders, samples.

Everything goes by a dry run on the server and then for good, on the server that the environment
asks for and on the oldest Kubernetes that the documents promise. In neither does anything stand
behind the Service of the webhooks, so no object of ours is written while they are registered.
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
from tests.manifests.overlays import COMPONENTS, with_components
from tests.reconcilers.cli.commandline import run
from tests.yamls import read_all_yaml, read_yaml

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEFINITIONS = MANIFESTS / "crds"
SAMPLES = [path for path in sorted((MANIFESTS / "samples").glob("*.yaml")) if path != NAMESPACES]
NAMES = tuple(kind.crd_name for kind in crd.KINDS)
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def print_crds() -> str:
    """Return the output of `butler-ipam crds`."""
    outcome = run("crds")
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


def kustomizations() -> Iterator[str]:
    """Yield the folders that can be applied by themselves; components cannot."""
    for file in sorted(MANIFESTS.glob("*/[kK]ustomization*")):
        if read_yaml(file.read_text())["kind"] == "Kustomization":
            yield file.parent.name


async def remove(cluster: Cluster) -> None:
    """Take away our kinds with their objects, the webhooks, and what else the samples bring."""
    of_home = f"/api/v1/namespaces/{HOME}"
    for path in (HOOKS, f"{of_home}/secrets", f"{of_home}/configmaps"):
        answer = await cluster.http.delete(path)
        assert answer.is_success, answer.text
    await cluster.undefine(*NAMES)


@pytest_asyncio.fixture(loop_scope="module")
async def empty_site(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The cluster without anything of ours, before and after.

    What was applied in one way is not to be applied in the other: kubectl would warn of that.
    """
    await remove(cluster)
    yield cluster
    await remove(cluster)


async def versions(cluster: Cluster, documents: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the resourceVersions of the objects of manifests."""
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
    empty_site: Cluster, command: tuple[str, ...], piped: bool
) -> None:
    input_text = print_crds() if piped else ""
    await empty_site.kubectl("apply", *command, "--dry-run=server", stdin=input_text)
    await empty_site.kubectl("apply", *command, stdin=input_text)
    for definition in await empty_site.wait_until_established(*NAMES):
        status = definition["status"]
        conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
        assert conditions == {"Established": "True", "NamesAccepted": "True"}
        assert status["acceptedNames"] == definition["spec"]["names"]
        assert status["storedVersions"] == ["v1alpha1"]


async def test_the_definitions_replace_those_of_another_installation(empty_site: Cluster) -> None:
    """As the guide has it for a migration; the other one wrote its own, and owns every field."""
    theirs = write_manifests(
        *(without_rules(document) for document in read_all_yaml(print_crds()))
    )
    command = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    await empty_site.kubectl(*command, stdin=theirs)
    before = schemas(await empty_site.wait_until_established(*NAMES))
    await empty_site.kubectl("apply", "--server-side", "--force-conflicts", "-k", DEFINITIONS)
    after = schemas(await empty_site.wait_until_established(*NAMES))
    assert before != after
    assert after == schemas(read_all_yaml(print_crds()))


def schemas(definitions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the schemas of definitions' versions, by name."""
    return {
        definition["metadata"]["name"]: definition["spec"]["versions"]
        for definition in definitions
    }


async def test_what_the_definitions_say_of_every_field_can_be_read(cluster: Cluster) -> None:
    await cluster.apply("-k", DEFINITIONS)
    await cluster.wait_until_established(*NAMES)
    for kind in crd.KINDS:
        # A controller of kube-apiserver publishes that a moment after the kind is served.
        told = await cluster.until_kubectl("explain", kind.plural, "--recursive")
        assert kind.kind in told
        assert "spec\t<Object>" in told


async def test_the_one_file_install_is_accepted_and_applied_again_it_changes_nothing(
    cluster: Cluster,
) -> None:
    await cluster.apply("-f", rendering.INSTALL)
    await cluster.wait_until_established(*NAMES)
    documents = [document for document in read_all_yaml(rendering.INSTALL.read_text()) if document]
    before = await versions(cluster, documents)
    assert len(before) == len(documents)
    await cluster.kubectl("apply", "--server-side", "-f", rendering.INSTALL)
    assert await versions(cluster, documents) == before


@pytest.mark.parametrize("folder", list(kustomizations()))
async def test_every_folder_of_kustomize_is_accepted(cluster: Cluster, folder: str) -> None:
    applied = read_yaml(await cluster.apply("-k", MANIFESTS / folder, "-o", "yaml"))
    documents = applied["items"] if applied["kind"] == "List" else [applied]
    assert await cluster.read_stored(documents)


async def render_folder(cluster: Cluster, folder: Path) -> list[dict[str, Any]]:
    """Return the manifests that kustomize renders of a folder."""
    return list(read_all_yaml(await cluster.kubectl("kustomize", folder)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(cluster: Cluster) -> list[dict[str, Any]]:
    """The objects of the install without components."""
    return await render_folder(cluster, MANIFESTS / "default")


@pytest.mark.parametrize("component", COMPONENTS)
async def test_what_a_component_adds_to_the_install_is_accepted(
    with_stand_ins: Cluster, plain: list[dict[str, Any]], component: str, tmp_path: Path
) -> None:
    all_objects = await render_folder(with_stand_ins, with_components(tmp_path, component))
    added = [obj for obj in all_objects if obj not in plain]
    await with_stand_ins.apply(
        "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": added})
    )
    kinds = {obj["kind"] for obj in await with_stand_ins.read_stored(added)}
    assert COMPONENTS[component] <= kinds


async def test_the_install_with_all_components_is_accepted(
    with_stand_ins: Cluster, tmp_path: Path
) -> None:
    folder = with_components(tmp_path, *COMPONENTS)
    applied = read_yaml(await with_stand_ins.apply("-k", folder, "-o", "yaml"))
    applied_kinds = {obj["kind"] for obj in await with_stand_ins.read_stored(applied["items"])}
    assert applied_kinds >= {kind for kinds in COMPONENTS.values() for kind in kinds}


@pytest.mark.parametrize("way", [("--server-side",), ()], ids=["server side", "client side"])
async def test_every_sample_is_accepted(empty_site: Cluster, way: tuple[str, ...]) -> None:
    await empty_site.apply("-k", DEFINITIONS)
    await empty_site.wait_until_established(*NAMES)
    files = [f"--filename={file}" for file in SAMPLES]
    await empty_site.kubectl("apply", *way, "--dry-run=server", *files)
    await empty_site.kubectl("apply", *way, *files)
    content = "---\n".join(file.read_text() for file in SAMPLES)
    documents = list(read_all_yaml(content))
    assert len(await versions(empty_site, documents)) == len(documents)
    plurals = ",".join(kind.plural for kind in crd.KINDS)
    tables = (await empty_site.kubectl("get", plurals, "-A", "-o", "wide")).split("\n\n")
    for kind, table in zip(crd.KINDS, tables, strict=True):
        assert [column.name.upper() for column in kind.columns] == heads(table)
    called = ",".join(kind.alias or kind.short for kind in crd.KINDS)
    kubectl = (await empty_site.kubectl("get", called, "-A", "-o", "name")).split()
    assert {line.partition("/")[0] for line in kubectl} == {
        f"{kind.kind.lower()}.{names.GROUP}" for kind in crd.KINDS
    }


def heads(table: str) -> list[str]:
    """Return the heads of a table of namespaced objects, without namespace and name."""
    words = [head.strip() for head in table.splitlines()[0].split("   ")]
    return [head for head in words if head][2:]


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_pod_of_the_deployment_passes_the_standard_that_its_namespace_enforces(
    cluster: Cluster, allowed: bool
) -> None:
    cluster.require_real("the embedded one runs no pods and judges none")
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
    if not allowed:
        pod["spec"]["hostNetwork"] = True
    command = ("create", "--dry-run=server", "-f", "-")
    code, _, complained = await cluster.run("kubectl", *command, stdin=write_manifests(pod))
    assert (code == 0) is allowed, complained
    assert ("violates PodSecurity" in complained) is not allowed
    assert "Warning:" not in complained
