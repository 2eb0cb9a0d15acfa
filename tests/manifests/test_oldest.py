"""The oldest Kubernetes that the documents promise: it is that one, and the demo happens on it."""

import re
import subprocess

from tests.docs.text import read
from tests.manifests.clusters import MANIFESTS
from tests.reconcilers.cli.commands import call
from tests.servers import oldest_assets
from tests.yamls import read_yaml

SECONDS = 300.0


def read_oldest_minor() -> str:
    """Return the minor version that the chart names."""
    constraint = read_yaml((MANIFESTS / "chart/Chart.yaml").read_text())["kubeVersion"]
    match = re.fullmatch(r">=(\d+\.\d+)\.0-0", constraint)
    assert match, constraint
    return match[1]


def test_the_documents_and_the_chart_promise_the_same() -> None:
    for document in ("README.md", "docs/operating/install.md"):
        content = " ".join(read(document).split())
        assert f"Kubernetes {read_oldest_minor()} or newer" in content


def test_the_oldest_is_the_one_that_is_promised() -> None:
    program = oldest_assets() / "kube-apiserver"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"Kubernetes v{read_oldest_minor()}.")


async def test_the_demo_plays_all_its_steps_on_it() -> None:
    assets = oldest_assets()
    done = await call("demo", seconds=SECONDS, KUBEBUILDER_ASSETS=str(assets))
    printed = done.stdout.decode()
    assert done.returncode == 0, printed + done.stderr.decode()
    assert "no two ranges ever overlapped" in printed
    assert f"   kube-apiserver v{read_oldest_minor()}." in printed
