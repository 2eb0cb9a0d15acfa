"""The real Helm takes the chart, and a cluster takes what Helm makes of it, whatever the values.

Where there is no Helm, tests/manifests/helm.py renders the chart; here the two are held against
each other.
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
"""The Kubernetes that Helm renders for where no cluster says otherwise: the chart's oldest."""
ALL_SETS: Mapping[str, Values] = {**VALUE_SETS, **WITH_FOREIGN_KINDS}
INSTALLS: Mapping[str, tuple[str, ...]] = {
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
"""What is installed at once, as an installation takes seconds: each set of values is in one."""
DEFINITIONS = MANIFESTS / "crds"
SHIPPED = "manifests/chart"
NEWER, OLDER = "must be a CIDR", "should be a CIDR"
POOL = {
    "apiVersion": "butler.butlerlabs.dev/v1alpha1",
    "kind": "NetworkPool",
    "metadata": {"name": "kept", "namespace": HOME},
    "spec": {"cidr": "10.0.0.0/24"},
}


def template(folder: Path, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Let Helm render the chart without a cluster."""
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
    assert {name for names in INSTALLS.values() for name in names} | {"defaults"} == set(ALL_SETS)


def write_values(folder: Path, name: str, values: Mapping[str, Any]) -> Path:
    """Write a file of values."""
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(values))
    return path


def by_name(documents: list[Any]) -> dict[str, Any]:
    return {
        f"{document['kind']}/{document['metadata']['name']}": document
        for document in documents
        if document
    }


@pytest.mark.parametrize("values", ALL_SETS.values(), ids=list(ALL_SETS))
def test_helm_renders_what_the_renderer_of_the_tests_renders(
    values: Values, tmp_path: Path
) -> None:
    done = template(tmp_path, values)
    assert (done.returncode, done.stderr) == (0, "")
    theirs = by_name(list(read_all_yaml(done.stdout)))
    assert theirs == by_name(
        list(Chart(CHART, values, release=RELEASE, namespace=HOME).documents())
    )


def test_helm_refuses_by_the_schema_what_cannot_be_meant(tmp_path: Path) -> None:
    """A chart has ours as parts, one for each set of values: Helm judges them all at once."""
    tried = {f"refused-{number}": values for number, values in enumerate(REFUSED)}
    tried["taken"] = {}
    meta = {"apiVersion": "v2", "name": "every", "version": "0.0.1"}
    own = read_yaml((CHART / "Chart.yaml").read_text())
    part = {"name": own["name"], "version": own["version"]}
    write_values(
        tmp_path, "Chart", meta | {"dependencies": [part | {"alias": name} for name in tried]}
    )
    inner = tmp_path / "charts" / own["name"]
    inner.mkdir(parents=True)
    for name in ("Chart.yaml", "values.yaml", "values.schema.json"):
        shutil.copy(CHART / name, inner)
    values = write_values(tmp_path, "tried", tried)
    command = [program("helm"), "template", str(tmp_path), f"--values={values}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "values don't meet the specifications of the schema" in done.stderr
    judged = re.findall(r"^(refused-\d+|taken):$", done.stderr, re.MULTILINE)
    assert sorted(judged) == sorted(set(tried) - {"taken"}), done.stderr


def test_helm_has_nothing_against_the_chart() -> None:
    command = [program("helm"), "lint", "--strict", f"--kube-version={OLDEST}", str(CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


@pytest_asyncio.fixture(loop_scope="module")
async def release(with_stand_ins: Cluster) -> Cluster:
    """A cluster with the kinds of other projects, without a release."""
    program("helm")
    return with_stand_ins


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", INSTALLS)
async def test_helm_installs_with_every_set_of_values(
    release: Cluster, name: str, tmp_path: Path
) -> None:
    files = (
        f"--values={write_values(tmp_path, set_name, ALL_SETS[set_name])}"
        for set_name in INSTALLS[name]
    )
    chart: tuple[str | Path, ...] = (RELEASE, CHART, "-n", HOME, *files)
    rendered = await release.helm("template", *chart, f"--kube-version={OLDEST}", "--skip-tests")
    await release.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=rendered)
    await release.helm("install", *chart, "--dry-run=server")
    await release.helm("install", *chart)
    documents = [document for document in read_all_yaml(rendered) if document]
    assert set(by_name(await release.read_stored(documents))) == set(by_name(documents))
    await release.helm("uninstall", RELEASE, "-n", HOME, "--wait")


@pytest.mark.asyncio(loop_scope="module")
async def test_what_helm_renders_can_be_applied_by_kubectl(
    release: Cluster, tmp_path: Path
) -> None:
    values = write_values(tmp_path, "everything", ALL_SETS["everything"])
    chart = (RELEASE, CHART, "-n", HOME, "-f", values)
    rendered = await release.helm("template", *chart, f"--kube-version={OLDEST}", "--skip-tests")
    await release.apply("-f", "-", stdin=rendered)
    await release.delete("-f", "-", stdin=rendered)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_release_is_installed_upgraded_and_removed_by_the_lines_of_the_guide(
    release: Cluster, tmp_path: Path
) -> None:
    await release.helm(*[older(tmp_path) if word == SHIPPED else word for word in INSTALL])
    assert await rule_says(release, OLDER)
    await release.helm(*INSTALL)
    assert await rule_says(release, NEWER)
    await release.helm(*find_arguments("rollback"))
    assert await rule_says(release, OLDER)
    await release.kubectl("apply", "--server-side", "--force-conflicts", "-k", DEFINITIONS)
    assert await rule_says(release, NEWER)
    await release.helm(*INSTALL)
    await release.helm(*find_arguments("upgrade", RELEASE))
    assert "--metallb-bundle=metallb" in await arguments(release)
    await release.helm(*find_arguments("uninstall"), "--wait")
    await release.delete("-k", DEFINITIONS)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_kinds_and_their_objects_outlive_a_release(release: Cluster) -> None:
    await release.helm(*INSTALL)
    await release.helm(*find_arguments("uninstall"), "--wait")
    await release.apply("-f", "-", stdin=json.dumps(POOL))
    await release.helm(*INSTALL)
    await release.helm(*find_arguments("uninstall"), "--wait")
    assert "kept" in await release.kubectl("get", "networkpools", "-n", HOME, "-o", "name")
    await release.delete("-k", DEFINITIONS)


@pytest.mark.asyncio(loop_scope="module")
async def test_pools_that_the_in_cluster_provider_defined_are_left_as_they_are(
    release: Cluster, tmp_path: Path
) -> None:
    defined = ("inclusterippools", "globalinclusterippools")
    own = ("inclusterprefixpools", "globalinclusterprefixpools")
    definition_names = [f"{plural}.ipam.cluster.x-k8s.io" for plural in (*defined, *own)]
    await release.undefine(*definition_names)
    await release.apply("-f", str(IN_CLUSTER_POOLS))
    # The server writes conditions until then, and so another version of what is compared.
    await release.wait_until_established(*definition_names[: len(defined)])
    before = [await definition(release, plural) for plural in defined]
    values = write_values(tmp_path, "values", ALL_SETS["with Cluster API"])
    for _ in range(2):
        await release.helm("upgrade", "--install", RELEASE, CHART, "-n", HOME, "-f", values)
        assert [await definition(release, plural) for plural in defined] == before
        for plural in own:
            labels = (await definition(release, plural))["metadata"]["labels"]
            assert labels[PROVIDER_LABEL] == PROVIDER
    await release.helm("uninstall", RELEASE, "-n", HOME, "--wait")
    await release.undefine(*definition_names, *(kind.crd_name for kind in crd.KINDS))


async def definition(cluster: Cluster, plural: str) -> dict[str, Any]:
    """Return a CustomResourceDefinition of Cluster API's pools without what only servers write."""
    [crd] = await cluster.definitions(f"{plural}.ipam.cluster.x-k8s.io")
    return {"metadata": crd["metadata"], "spec": crd["spec"]}


def find_arguments(*words: str) -> list[str]:
    """Return the arguments of the first line of the operator's guide that begins with words."""
    lines = [shlex.split(command.line_text) for page in OPERATING for command in commands(page)]
    return next(line[1:] for line in lines if line[: len(words) + 1] == ["helm", *words])


INSTALL = find_arguments("upgrade", "--install")


def older(folder: Path) -> Path:
    """Return a copy of the chart as an earlier version may have been, with another rule."""
    copy = folder / "older"
    shutil.copytree(CHART, copy)
    crds = copy / "templates/crds.yaml"
    content = crds.read_text()
    assert NEWER in content
    crds.write_text(content.replace(NEWER, OLDER))
    return copy


async def rule_says(cluster: Cluster, content: str) -> bool:
    """Whether a rule of the definitions that are in force has a text."""
    return content in json.dumps(await cluster.definitions(crd.KINDS[0].crd_name))


async def arguments(cluster: Cluster) -> list[str]:
    """Return the arguments of the controller's container."""
    deployment = await cluster.read(f"/apis/apps/v1/namespaces/{HOME}/deployments/{RELEASE}")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return list(container["args"])
