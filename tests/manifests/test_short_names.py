"""Which kind kubectl takes a short name for, beside the kinds that share clusters with ours."""

from typing import Any

import anyio
import pytest

from reconcilers.api import crd, names
from tests.docs.text import GUIDES, commands
from tests.manifests.clusters import MANIFESTS, Cluster, condition, write_manifests
from tests.polling import SECONDS
from tests.reconcilers.cli.commands import ROOT
from tests.yamls import read_yaml

OTHERS = read_yaml((ROOT / "tests/data/short-names.yaml").read_text())
VERBS = {"get", "describe", "wait", "delete", "annotate", "label"}


def definition(group: str, kind: str, plural: str, short: list[str]) -> dict[str, Any]:
    """Return the definition of a kind whose objects may hold anything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    spoken = {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": short}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": spoken,
            "versions": [version | {"schema": {"openAPIV3Schema": anything}}],
        },
    }


async def meant(cluster: Cluster, name: str) -> str:
    """Return the resource and group that kubectl takes a name for."""
    asked = ("create", "role", "x", "--verb=get", f"--resource={name}", "--dry-run=client")
    _, said, _ = await cluster.run("kubectl", *asked, "-o", "yaml")
    rules = (read_yaml(said) or {}).get("rules", [])
    return ".".join((rules[0]["resources"][0], rules[0]["apiGroups"][0])) if rules else ""


async def wait_until_accepted(cluster: Cluster, expected: list[str]) -> None:
    """Wait until definitions are served by all their names."""
    groups = {name.partition(".")[2] for name in expected}
    with anyio.fail_after(SECONDS):
        for definition in await cluster.wait_until_established(*expected):
            assert condition(definition, "NamesAccepted") == "True", definition["status"]
        while not set(expected) <= {
            f"{resource['name']}.{group}"
            for group in groups
            for resource in await list_resources(cluster, group)
        }:
            pass
    # So that kubectl does not go by what it remembers.
    await cluster.kubectl("api-resources", "--cached=false", "-o", "name")


async def list_resources(cluster: Cluster, group: str) -> list[dict[str, Any]]:
    """Return the resources of a group that discovery has."""
    answer = await cluster.http.get(f"/apis/{group}")
    if not answer.is_success:
        return []
    versions = [version["groupVersion"] for version in answer.json()["versions"]]
    return [
        resource
        for version in versions
        for resource in (await cluster.read(f"/apis/{version}"))["resources"]
    ]


@pytest.mark.asyncio(loop_scope="module")
async def test_short_names_mean_our_kinds_beside_those_of_other_projects(cluster: Cluster) -> None:
    ours = [kind.crd_name for kind in crd.KINDS]
    stubs = [definition(*other) for other in OTHERS]
    foreign = [stub["metadata"]["name"] for stub in stubs]
    await cluster.apply("-k", MANIFESTS / "crds")
    await wait_until_accepted(cluster, ours)
    try:
        meanings = {kind.short: await meant(cluster, kind.short) for kind in crd.KINDS}
        assert meanings.pop("pc").endswith("priorityclasses.scheduling.k8s.io")
        own = {kind.short: kind.crd_name for kind in crd.KINDS if kind.short != "pc"}
        assert meanings == own

        await cluster.apply("-f", "-", stdin=write_manifests(*stubs))
        await wait_until_accepted(cluster, foreign)
        own = {kind.alias or kind.short: kind.crd_name for kind in crd.KINDS}
        assert {name: await meant(cluster, name) for name in own} == own
        full = {kind.crd_name: await meant(cluster, kind.crd_name) for kind in crd.KINDS}
        assert full == {name: name for name in ours}
    finally:
        await cluster.undefine(*ours, *foreign)


def test_the_guides_name_kinds_in_full() -> None:
    short = {name for kind in crd.KINDS for name in kind.short_names}
    places = []
    for document in GUIDES:
        for command in commands(document):
            words = command.words
            if words[0] == "kubectl" and VERBS & set(words):
                places += [command.place for word in words if short & set(word.split(","))]
    assert places == []


def test_no_short_name_is_that_of_another_kind_of_butlers() -> None:
    theirs = {name for group, _, _, short in OTHERS if group == names.GROUP for name in short}
    assert not theirs & {name for kind in crd.KINDS for name in kind.short_names}
