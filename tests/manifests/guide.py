"""The lines of the operator's guide in order, and the lines that no test types."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.docs.text import OPERATING, commands
from tests.manifests.clusters import Cluster
from tests.reconcilers.cli.commands import ROOT
from tests.servers import program

_NODES = "no node runs pods here"
_OURS = "-l app.kubernetes.io/name=butler-controller,app.kubernetes.io/component=ipam"
_NAME = "the name of a command in a sentence, without what it needs"
NOT_TYPED: Mapping[str, str] = {
    "docker build -f Containerfile --build-arg VERSION=0.1.0"
    " -t registry.example/butler-ipam:0.1.0 .": "needs an engine",
    "docker push registry.example/butler-ipam:0.1.0": "needs a registry",
    "make image-check": "a target with a test of its own",
    "make dashboard": "draws a picture of the documents anew, and needs a browser",
    "python -m tests.bench": "takes minutes, and a quiet machine",
    "kubectl -n butler-system rollout status deployment/butler-ipam": _NODES,
    "kubectl -n butler-system rollout undo deployment/butler-ipam": "no controller of Deployments",
    f"kubectl logs -n butler-system {_OURS} --prefix --tail=-1 | grep -i shrink": _NODES,
    f'kubectl logs -n butler-system {_OURS} --prefix --tail=-1 | grep \'"level":"error"\'': _NODES,
    "leader=$(kubectl -n butler-system get lease butler-ipam -o jsonpath='{.spec.holderIdentity}'"
    " | cut -d_ -f1)": "for the next line alone",
    "kubectl -n butler-system exec \"$leader\" -- sh -c 'kill -USR1 1'": _NODES,
    "kubectl --kubeconfig tenant.kubeconfig get ipaddresspool -n metallb-system default-pool"
    " -o jsonpath='{.spec.addresses}'": "needs a tenant; tests/metallb has some",
    "kubectl --kubeconfig=tenant.kubeconfig -n metallb-system annotate ipaddresspools default-pool"
    " butler.butlerlabs.dev/projection-management-": "needs a tenant;"
    " tests/reconcilers/tenantcluster/test_two_management_clusters.py takes it off",
    "kubectl delete ipallocation -n butler-system"
    " -l butler.butlerlabs.dev/team=team-payments,butler.butlerlabs.dev/tenant=shop"
    ",butler.butlerlabs.dev/allocation-type=loadbalancer": (
        "needs a tenant, and a ProviderConfig in cloud mode; tests/metallb has both"
    ),
    "kubectl get ipaddresses.ipam.cluster.x-k8s.io -n butler-system -o"
    " custom-columns=POOL:.spec.poolRef.name,CLAIM:.spec.claimRef.name,ADDRESS:.spec.address": (
        "needs the kinds of Cluster API; tests/contract/clusterapi has them"
    ),
    "kubectl get ipallocations.vitistack.io -A": "needs the kinds of vitistack;"
    " tests/contract/vitistack has them",
    "kubectl -n butler-system port-forward service/butler-ipam-ui 8443:443": _NODES,
    "kubectl create token viewer -n butler-system": "page.py asks for tokens",
    "butler-ipam run": "the controller itself, which the tests start under its account",
    "butler-ipam plan --fit NODES+LB": "placeholders",
    "butler-ipam map POOL": "a placeholder",
    "butler-ipam explain NAME": "a placeholder",
    "butler-ipam release ALLOCATION": "a placeholder",
    "butler-ipam release team-platform/lab-cluster": "asks on a terminal;"
    " tests/contract/test_release_command.py answers",
    "kubectl ipam": _NAME,
    "butler-ipam plan": _NAME,
    "butler-ipam whois": _NAME,
    "kubectl apply": _NAME,
    "kubectl annotate crd networkpools.butler.butlerlabs.dev retry=now": "for when the line before"
    " it does not end, which a test cannot bring about",
}
"""The lines of the guide that no test types, with the reason."""
MAY_REPORT = (
    "butler-ipam check",
    "butler-ipam crds | kubectl diff",
    "butler-ipam plan -f",
    # No kubelet runs the Deployment's Pods here, which it reports.
    "butler-ipam status",
)
"""Beginnings of lines that may exit with status 1, which means that they report a finding."""


def list_pages() -> list[str]:
    """Return the names of the guide's pages that have commands."""
    return [Path(page).stem for page in OPERATING if list(commands(page))]


def page_path(page: str) -> str:
    """Return the path of a page of the guide."""
    return f"docs/operating/{page}.md"


def list_typed_lines(page: str, heading: str = "") -> list[str]:
    """Return the lines that tests type of a page, in the order of the text.

    Args:
        page: the name of the page.
        heading: the section whose lines are returned; empty for the whole page.
    """
    sorted_commands = sorted(commands(page_path(page), heading), key=lambda command: command.line)
    return [command.line_text for command in sorted_commands if command.line_text not in NOT_TYPED]


def list_copied_lines(page: str, heading: str = "") -> list[str]:
    """Return the lines of a page's blocks, which readers copy, in order.

    Args:
        page: the name of the page.
        heading: the section whose lines are returned; empty for the whole page.
    """
    return [command.line_text for command in commands(page_path(page), heading) if command.block]


async def type_line(cluster: Cluster, desk: Path, line: str) -> str:
    """Run a line of the guide in a folder that has the manifests; fail if it fails.

    Args:
        cluster: the cluster of kubectl and Helm.
        desk: the folder in which the line runs; `manifests` is linked into it.

    Returns:
        Its standard output.
    """
    if not (desk / "manifests").exists():
        (desk / "manifests").symlink_to(ROOT / "manifests")
    folders = f"{Path(sys.executable).parent}:{Path(program('kubectl')).parent}"
    script = f'export PATH="{folders}:$PATH"; cd "{desk}"; {line}'
    code, output, error_output = await cluster.run("sh", "-c", script)
    allowed = {0, 1} if line.startswith(MAY_REPORT) else {0}
    assert code in allowed, f"{line}: {error_output or output}"
    assert "error:" not in error_output.lower(), f"{line}: {error_output}"
    return output
