"""The real Helm renders and installs the chart with each set of values.

Its output is compared with that of tests/manifests/helm.py, which renders the chart for tests
without Helm.
"""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from reconcilers.api import crd
from reconcilers.integrations.clusterapi.api import PROVIDER, PROVIDER_LABEL
from tests.docs.text import OPERATING, commands
from tests.manifests.clusters import HOME, MANIFESTS, Cluster
from tests.manifests.helm import Chart
from tests.manifests.valuesets import REFUSED, VALUE_SETS, WITH_FOREIGN_KINDS, Values
from tests.servers import program
from tests.yamls import read_all_yaml, read_yaml

CHART = MANIFESTS / "chart"
IN_CLUSTER_POOLS = Path(__file__).parents[1] / "data/clusterapi/in-cluster-pools.yaml"
RELEASE = "butler-ipam"
OLDEST = "1.31.0"
"""The oldest Kubernetes of the chart, for which `helm template` renders without a cluster."""
ALL_SETS: Mapping[str, Values] = {**VALUE_SETS, **WITH_FOREIGN_KINDS}
INSTALLATIONS: Mapping[str, tuple[str, ...]] = {
    "defaults": (),
    "as documented": (
        *("image as documented", "bundle as documented", "settings", "names as a list"),
    ),
    "all of the pods": (
        *("image by digest", "odd settings", "odd arguments", "placement", "marks on pods"),
        *("account with annotations", "webhooks that may fail", "longest name", "crds not kept"),
    ),
    "by others": (
        *("crds by others", "roles by others", "account by others", "name of its own"),
        "with Cluster API but not its kinds",
    ),
    "the least": (
        *("no webhooks", "no roles for people", "network policy", "plain metrics", "debugging"),
        *("network policy with its peers", "spread and names", "shards"),
    ),
    "with others": ("cert-manager", "with Cluster API", "the page with a certificate"),
    "with KKP": ("with KKP", "with vitistack", "with metal3", "the page"),
    "everything": ("prometheus", "everything", "other name"),
}
"""Installations, each with several sets of values at once because an installation takes seconds.

Every set of values is in an installation.
"""
DEFINITIONS = MANIFESTS / "crds"
CHART_IN_GUIDE = "manifests/chart"
NEW_MESSAGE, OLD_MESSAGE = "must be a CIDR", "should be a CIDR"
POOL = {
    "apiVersion": "butler.butlerlabs.dev/v1alpha1",
    "kind": "NetworkPool",
    "metadata": {"name": "kept", "namespace": HOME},
    "spec": {"cidr": "10.0.0.0/24"},
}


def run_helm_template(folder: Path, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run `helm template` with values, without a cluster; `folder` is where they are written."""
    return subprocess.run(
        [
            *(program("helm"), "template", RELEASE, str(CHART), f"--namespace={HOME}"),
            *(f"--kube-version={OLDEST}", f"--values={write_values(folder, 'values', values)}"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_set_of_values_is_installed() -> None:
    assert {name for names in INSTALLATIONS.values() for name in names} | {"defaults"} == set(
        ALL_SETS
    )


def write_values(folder: Path, name: str, values: Mapping[str, Any]) -> Path:
    """Write values to NAME.yaml in a folder; return its path."""
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(values))
    return path


def index_by_name(documents: list[Any]) -> dict[str, Any]:
    """Return objects by "Kind/name", without empty documents."""
    return {
        f"{document['kind']}/{document['metadata']['name']}": document
        for document in documents
        if document
    }


@pytest.mark.parametrize("values", ALL_SETS.values(), ids=list(ALL_SETS))
def test_helm_and_the_renderer_of_the_tests_render_the_same_objects(
    values: Values, tmp_path: Path
) -> None:
    done = run_helm_template(tmp_path, values)
    assert (done.returncode, done.stderr) == (0, "")
    theirs = index_by_name(list(read_all_yaml(done.stdout)))
    assert theirs == index_by_name(
        list(Chart(CHART, values, release=RELEASE, namespace=HOME).documents())
    )


def test_helm_rejects_each_set_of_invalid_values_by_the_schema(tmp_path: Path) -> None:
    """A parent chart has ours as a dependency once per set of values, so one run checks all."""
    values_by_alias = {f"refused-{number}": values for number, values in enumerate(REFUSED)}
    values_by_alias["accepted"] = {}
    meta = {"apiVersion": "v2", "name": "every", "version": "0.0.1"}
    own_metadata = read_yaml((CHART / "Chart.yaml").read_text())
    dependency = {"name": own_metadata["name"], "version": own_metadata["version"]}
    write_values(
        tmp_path,
        "Chart",
        meta | {"dependencies": [dependency | {"alias": name} for name in values_by_alias]},
    )
    inner = tmp_path / "charts" / own_metadata["name"]
    inner.mkdir(parents=True)
    for name in ("Chart.yaml", "values.yaml", "values.schema.json"):
        shutil.copy(CHART / name, inner)
    values = write_values(tmp_path, "tried", values_by_alias)
    command = [program("helm"), "template", str(tmp_path), f"--values={values}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "values don't meet the specifications of the schema" in done.stderr
    rejected_aliases = re.findall(r"^(refused-\d+|accepted):$", done.stderr, re.MULTILINE)
    assert sorted(rejected_aliases) == sorted(set(values_by_alias) - {"accepted"}), done.stderr


def test_helm_lint_reports_nothing_about_the_chart() -> None:
    command = [program("helm"), "lint", "--strict", f"--kube-version={OLDEST}", str(CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


@pytest_asyncio.fixture(loop_scope="module")
async def prepared_cluster(with_stand_ins: Cluster) -> Cluster:
    """A cluster with the kinds of other projects, without a release."""
    program("helm")
    return with_stand_ins


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", INSTALLATIONS)
async def test_helm_installs_with_every_set_of_values(
    prepared_cluster: Cluster, name: str, tmp_path: Path
) -> None:
    files = (
        f"--values={write_values(tmp_path, set_name, ALL_SETS[set_name])}"
        for set_name in INSTALLATIONS[name]
    )
    chart: tuple[str | Path, ...] = (RELEASE, CHART, "-n", HOME, *files)
    rendered = await prepared_cluster.helm(
        "template", *chart, f"--kube-version={OLDEST}", "--skip-tests"
    )
    await prepared_cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "-f", "-", stdin=rendered
    )
    await prepared_cluster.helm("install", *chart, "--dry-run=server")
    await prepared_cluster.helm("install", *chart)
    documents = [document for document in read_all_yaml(rendered) if document]
    assert set(index_by_name(await prepared_cluster.read_stored(documents))) == set(
        index_by_name(documents)
    )
    await prepared_cluster.helm("uninstall", RELEASE, "-n", HOME, "--wait")


@pytest.mark.asyncio(loop_scope="module")
async def test_objects_that_helm_renders_can_be_applied_by_kubectl(
    prepared_cluster: Cluster, tmp_path: Path
) -> None:
    values = write_values(tmp_path, "everything", ALL_SETS["everything"])
    chart = (RELEASE, CHART, "-n", HOME, "-f", values)
    rendered = await prepared_cluster.helm(
        "template", *chart, f"--kube-version={OLDEST}", "--skip-tests"
    )
    await prepared_cluster.apply("-f", "-", stdin=rendered)
    await prepared_cluster.delete("-f", "-", stdin=rendered)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_release_is_installed_upgraded_and_removed_by_the_lines_of_the_guide(
    prepared_cluster: Cluster, tmp_path: Path
) -> None:
    await prepared_cluster.helm(
        *[copy_older_chart(tmp_path) if word == CHART_IN_GUIDE else word for word in INSTALL]
    )
    assert await has_rule_message(prepared_cluster, OLD_MESSAGE)
    await prepared_cluster.helm(*INSTALL)
    assert await has_rule_message(prepared_cluster, NEW_MESSAGE)
    await prepared_cluster.helm(*find_arguments("rollback"))
    assert await has_rule_message(prepared_cluster, OLD_MESSAGE)
    await prepared_cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "-k", DEFINITIONS
    )
    assert await has_rule_message(prepared_cluster, NEW_MESSAGE)
    await prepared_cluster.helm(*INSTALL)
    await prepared_cluster.helm(*find_arguments("upgrade", RELEASE))
    assert "--metallb-bundle=metallb" in await read_arguments(prepared_cluster)
    await prepared_cluster.helm(*find_arguments("uninstall"), "--wait")
    await prepared_cluster.delete("-k", DEFINITIONS)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_kinds_and_their_objects_outlive_a_release(
    prepared_cluster: Cluster,
) -> None:
    await prepared_cluster.helm(*INSTALL)
    await prepared_cluster.helm(*find_arguments("uninstall"), "--wait")
    await prepared_cluster.apply("-f", "-", stdin=json.dumps(POOL))
    await prepared_cluster.helm(*INSTALL)
    await prepared_cluster.helm(*find_arguments("uninstall"), "--wait")
    assert "kept" in await prepared_cluster.kubectl(
        "get", "networkpools", "-n", HOME, "-o", "name"
    )
    await prepared_cluster.delete("-k", DEFINITIONS)


@pytest.mark.asyncio(loop_scope="module")
async def test_definitions_of_the_in_cluster_provider_are_left_unchanged(
    prepared_cluster: Cluster, tmp_path: Path
) -> None:
    existing = ("inclusterippools", "globalinclusterippools")
    missing = ("inclusterprefixpools", "globalinclusterprefixpools")
    definition_names = [f"{plural}.ipam.cluster.x-k8s.io" for plural in (*existing, *missing)]
    await prepared_cluster.undefine(*definition_names)
    await prepared_cluster.apply("-f", str(IN_CLUSTER_POOLS))
    # Until then the server writes conditions, which change the compared resourceVersion.
    await prepared_cluster.wait_until_established(*definition_names[: len(existing)])
    before = [await read_definition(prepared_cluster, plural) for plural in existing]
    values = write_values(tmp_path, "values", ALL_SETS["with Cluster API"])
    for _ in range(2):
        await prepared_cluster.helm(
            "upgrade", "--install", RELEASE, CHART, "-n", HOME, "-f", values
        )
        assert [await read_definition(prepared_cluster, plural) for plural in existing] == before
        for plural in missing:
            labels = (await read_definition(prepared_cluster, plural))["metadata"]["labels"]
            assert labels[PROVIDER_LABEL] == PROVIDER
    await prepared_cluster.helm("uninstall", RELEASE, "-n", HOME, "--wait")
    await prepared_cluster.undefine(*definition_names, *(kind.crd_name for kind in crd.KINDS))


async def read_definition(cluster: Cluster, plural: str) -> dict[str, Any]:
    """Return the metadata and the spec of a definition of Cluster API's pools."""
    [crd] = await cluster.list_definitions(f"{plural}.ipam.cluster.x-k8s.io")
    return {"metadata": crd["metadata"], "spec": crd["spec"]}


def find_arguments(*words: str) -> list[str]:
    """Return the arguments of the guide's first line that begins with `helm` and these words."""
    lines = [shlex.split(command.line_text) for page in OPERATING for command in commands(page)]
    return next(line[1:] for line in lines if line[: len(words) + 1] == ["helm", *words])


INSTALL = find_arguments("upgrade", "--install")


def copy_older_chart(folder: Path) -> Path:
    """Return a copy of the chart, like an earlier version with another message of a CRD rule."""
    copy = folder / "older"
    shutil.copytree(CHART, copy)
    crds = copy / "templates/crds.yaml"
    content = crds.read_text()
    assert NEW_MESSAGE in content
    crds.write_text(content.replace(NEW_MESSAGE, OLD_MESSAGE))
    return copy


async def has_rule_message(cluster: Cluster, content: str) -> bool:
    """Return whether the definition of NetworkPools in the cluster has a text."""
    return content in json.dumps(await cluster.list_definitions(crd.KINDS[0].crd_name))


async def read_arguments(cluster: Cluster) -> list[str]:
    """Return the arguments of the Deployment's container in the cluster."""
    deployment = await cluster.read(f"/apis/apps/v1/namespaces/{HOME}/deployments/{RELEASE}")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return list(container["args"])
