"""The oldest supported Kubernetes: documents, chart and test server agree, and the demo runs."""

import re
import subprocess

from tests.docs.text import read
from tests.manifests.clusters import MANIFESTS
from tests.reconcilers.cli.commands import run_to_end
from tests.servers import oldest_assets
from tests.yamls import read_yaml

DEMO_SECONDS = 300.0


def read_oldest_minor() -> str:
    """Return the version of the oldest supported Kubernetes in the chart, as "1.31"."""
    constraint = read_yaml((MANIFESTS / "chart/Chart.yaml").read_text())["kubeVersion"]
    match = re.fullmatch(r">=(\d+\.\d+)\.0-0", constraint)
    assert match, constraint
    return match[1]


def test_the_documents_and_the_chart_name_the_same_oldest_kubernetes() -> None:
    for document in ("README.md", "docs/operating/install.md"):
        content = " ".join(read(document).split())
        assert f"Kubernetes {read_oldest_minor()} or newer" in content


def test_the_oldest_test_server_has_the_version_that_the_chart_names() -> None:
    program = oldest_assets() / "kube-apiserver"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"Kubernetes v{read_oldest_minor()}.")


async def test_the_demo_plays_all_its_steps_on_the_oldest_kubernetes() -> None:
    assets = oldest_assets()
    done = await run_to_end("demo", seconds=DEMO_SECONDS, KUBEBUILDER_ASSETS=str(assets))
    output = done.stdout.decode()
    assert done.returncode == 0, output + done.stderr.decode()
    assert "no two ranges ever overlapped" in output
    assert f"   kube-apiserver v{read_oldest_minor()}." in output
