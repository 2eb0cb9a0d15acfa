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
    written,
)
from tests.manifests.overlays import COMPONENTS, with_components
from tests.reconcilers.cli.commandline import run
from tests.yamls import read_all_yaml, read_yaml

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEFINITIONS = MANIFESTS / "crds"
SAMPLES = [one for one in sorted((MANIFESTS / "samples").glob("*.yaml")) if one != NAMESPACES]
NAMES = tuple(kind.crd_name for kind in crd.KINDS)
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def printed() -> str:
    """Return what `butler-ipam crds` prints."""
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
async def emptied(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The cluster without anything of ours, before and after.

    What was applied in one way is not to be applied in the other: kubectl would warn of that.
    """
    await remove(cluster)
    yield cluster
    await remove(cluster)


async def versions(cluster: Cluster, documents: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the resourceVersions of the objects of manifests."""
    return {
        f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["resourceVersion"]
        for one in await cluster.stored(documents)
    }


@pytest.mark.parametrize(
    ("command", "piped"),
    [
        (("--server-side", "-k", "manifests/crds"), False),
        (("--server-side", "-f", "manifests/crds"), False),
        (("--server-side", "-f", "-"), True),
        (("-f", "-"), True),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
async def test_the_definitions_are_accepted_and_served(
    emptied: Cluster, command: tuple[str, ...], piped: bool
) -> None:
    text = printed() if piped else ""
    await emptied.kubectl("apply", *command, "--dry-run=server", stdin=text)
    await emptied.kubectl("apply", *command, stdin=text)
    for definition in await emptied.established(*NAMES):
        status = definition["status"]
        conditions = {one["type"]: one["status"] for one in status["conditions"]}
        assert conditions == {"Established": "True", "NamesAccepted": "True"}
        assert status["acceptedNames"] == definition["spec"]["names"]
        assert status["storedVersions"] == ["v1alpha1"]


async def test_the_definitions_replace_those_of_another_installation(emptied: Cluster) -> None:
    """As the guide has it for a migration; the other one wrote its own, and owns every field."""
    theirs = written(*(without_rules(one) for one in read_all_yaml(printed())))
    command = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    await emptied.kubectl(*command, stdin=theirs)
    before = schemas(await emptied.established(*NAMES))
    await emptied.kubectl("apply", "--server-side", "--force-conflicts", "-k", DEFINITIONS)
    after = schemas(await emptied.established(*NAMES))
    assert before != after
    assert after == schemas(read_all_yaml(printed()))


def schemas(definitions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return what definitions say of their versions, by name."""
    return {one["metadata"]["name"]: one["spec"]["versions"] for one in definitions}


async def test_what_the_definitions_say_of_every_field_can_be_read(cluster: Cluster) -> None:
    await cluster.apply("-k", DEFINITIONS)
    await cluster.established(*NAMES)
    for kind in crd.KINDS:
        # A controller of kube-apiserver publishes that a moment after the kind is served.
        told = await cluster.until_kubectl("explain", kind.plural, "--recursive")
        assert kind.kind in told
        assert "spec\t<Object>" in told


async def test_the_one_file_install_is_accepted_and_applied_again_it_changes_nothing(
    cluster: Cluster,
) -> None:
    await cluster.apply("-f", rendering.INSTALL)
    await cluster.established(*NAMES)
    documents = [one for one in read_all_yaml(rendering.INSTALL.read_text()) if one]
    before = await versions(cluster, documents)
    assert len(before) == len(documents)
    await cluster.kubectl("apply", "--server-side", "-f", rendering.INSTALL)
    assert await versions(cluster, documents) == before


@pytest.mark.parametrize("folder", list(kustomizations()))
async def test_every_folder_of_kustomize_is_accepted(cluster: Cluster, folder: str) -> None:
    applied = read_yaml(await cluster.apply("-k", MANIFESTS / folder, "-o", "yaml"))
    documents = applied["items"] if applied["kind"] == "List" else [applied]
    assert await cluster.stored(documents)


async def rendered(cluster: Cluster, folder: Path) -> list[dict[str, Any]]:
    """Return what kustomize makes of a folder."""
    return list(read_all_yaml(await cluster.kubectl("kustomize", folder)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(cluster: Cluster) -> list[dict[str, Any]]:
    """The objects of the install without components."""
    return await rendered(cluster, MANIFESTS / "default")


@pytest.mark.parametrize("component", COMPONENTS)
async def test_what_a_component_adds_to_the_install_is_accepted(
    with_stand_ins: Cluster, plain: list[dict[str, Any]], component: str, tmp_path: Path
) -> None:
    every = await rendered(with_stand_ins, with_components(tmp_path, component))
    added = [one for one in every if one not in plain]
    await with_stand_ins.apply(
        "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": added})
    )
    found = {one["kind"] for one in await with_stand_ins.stored(added)}
    assert COMPONENTS[component] <= found


async def test_the_install_with_all_components_is_accepted(
    with_stand_ins: Cluster, tmp_path: Path
) -> None:
    folder = with_components(tmp_path, *COMPONENTS)
    applied = read_yaml(await with_stand_ins.apply("-k", folder, "-o", "yaml"))
    found = {one["kind"] for one in await with_stand_ins.stored(applied["items"])}
    assert found >= {kind for kinds in COMPONENTS.values() for kind in kinds}


@pytest.mark.parametrize("way", [("--server-side",), ()], ids=["server side", "client side"])
async def test_every_sample_is_accepted(emptied: Cluster, way: tuple[str, ...]) -> None:
    await emptied.apply("-k", DEFINITIONS)
    await emptied.established(*NAMES)
    files = [f"--filename={file}" for file in SAMPLES]
    await emptied.kubectl("apply", *way, "--dry-run=server", *files)
    await emptied.kubectl("apply", *way, *files)
    text = "---\n".join(file.read_text() for file in SAMPLES)
    documents = list(read_all_yaml(text))
    assert len(await versions(emptied, documents)) == len(documents)
    plurals = ",".join(kind.plural for kind in crd.KINDS)
    tables = (await emptied.kubectl("get", plurals, "-A", "-o", "wide")).split("\n\n")
    for kind, table in zip(crd.KINDS, tables, strict=True):
        assert [column.name.upper() for column in kind.columns] == heads(table)
    called = ",".join(kind.alias or kind.short for kind in crd.KINDS)
    found = (await emptied.kubectl("get", called, "-A", "-o", "name")).split()
    assert {line.partition("/")[0] for line in found} == {
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
        one for one in read_all_yaml(rendering.INSTALL.read_text()) if one["kind"] == "Deployment"
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
    code, _, complained = await cluster.run("kubectl", *command, stdin=written(pod))
    assert (code == 0) is allowed, complained
    assert ("violates PodSecurity" in complained) is not allowed
    assert "Warning:" not in complained
