"""kubectl resolves our short names to our kinds, beside common kinds of other projects."""

from typing import Any

import anyio
import pytest

from reconcilers.api import crd, names
from tests.docs.text import GUIDES, commands
from tests.manifests.clusters import MANIFESTS, Cluster, read_condition_status, write_manifests
from tests.polling import SECONDS
from tests.reconcilers.cli.commands import ROOT
from tests.yamls import read_yaml

OTHERS = read_yaml((ROOT / "tests/data/short-names.yaml").read_text())
VERBS = {"get", "describe", "wait", "delete", "annotate", "label"}


def build_definition(group: str, kind: str, plural: str, short: list[str]) -> dict[str, Any]:
    """Return the definition of a kind whose objects may hold anything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    names_of_kind = {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": short}
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
            "names": names_of_kind,
            "versions": [version | {"schema": {"openAPIV3Schema": anything}}],
        },
    }


async def resolve_name(cluster: Cluster, name: str) -> str:
    """Return the resource that kubectl resolves a name to, as "plural.group"; empty for none."""
    command = ("create", "role", "x", "--verb=get", f"--resource={name}", "--dry-run=client")
    _, output, _ = await cluster.run("kubectl", *command, "-o", "yaml")
    rules = (read_yaml(output) or {}).get("rules", [])
    return ".".join((rules[0]["resources"][0], rules[0]["apiGroups"][0])) if rules else ""


async def wait_until_accepted(cluster: Cluster, expected: list[str]) -> None:
    """Wait until definitions are served by all their names, and kubectl has read these names.

    Args:
        expected: the names of the definitions.
    """
    groups = {name.partition(".")[2] for name in expected}
    with anyio.fail_after(SECONDS):
        for definition in await cluster.wait_until_established(*expected):
            assert read_condition_status(definition, "NamesAccepted") == "True", definition[
                "status"
            ]
        while not set(expected) <= {
            f"{resource['name']}.{group}"
            for group in groups
            for resource in await list_resources(cluster, group)
        }:
            pass
    # This replaces kubectl's cache of discovery.
    await cluster.kubectl("api-resources", "--cached=false", "-o", "name")


async def list_resources(cluster: Cluster, group: str) -> list[dict[str, Any]]:
    """Return the resources of an API group, all versions, by discovery."""
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
    stubs = [build_definition(*other) for other in OTHERS]
    stub_names = [stub["metadata"]["name"] for stub in stubs]
    await cluster.apply("-k", MANIFESTS / "crds")
    await wait_until_accepted(cluster, ours)
    try:
        meanings = {kind.short: await resolve_name(cluster, kind.short) for kind in crd.KINDS}
        assert meanings.pop("pc").endswith("priorityclasses.scheduling.k8s.io")
        own = {kind.short: kind.crd_name for kind in crd.KINDS if kind.short != "pc"}
        assert meanings == own

        await cluster.apply("-f", "-", stdin=write_manifests(*stubs))
        await wait_until_accepted(cluster, stub_names)
        own = {kind.alias or kind.short: kind.crd_name for kind in crd.KINDS}
        assert {name: await resolve_name(cluster, name) for name in own} == own
        full = {kind.crd_name: await resolve_name(cluster, kind.crd_name) for kind in crd.KINDS}
        assert full == {name: name for name in ours}
    finally:
        await cluster.undefine(*ours, *stub_names)


def test_commands_of_the_guides_use_no_short_names() -> None:
    short = {name for kind in crd.KINDS for name in kind.short_names}
    places = []
    for document in GUIDES:
        for command in commands(document):
            words = command.words
            if words[0] == "kubectl" and VERBS & set(words):
                places += [command.place for word in words if short & set(word.split(","))]
    assert places == []


def test_no_short_name_is_used_by_another_kind_of_the_butler_group() -> None:
    theirs = {name for group, _, _, short in OTHERS if group == names.GROUP for name in short}
    assert not theirs & {name for kind in crd.KINDS for name in kind.short_names}
