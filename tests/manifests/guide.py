"""The operator's guide as it is typed: its lines in order, and those that no test types."""

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
"""What is written in the guide and is not typed, by its reason."""
MAY_FIND = (
    "butler-ipam check",
    "butler-ipam crds | kubectl diff",
    "butler-ipam plan -f",
    # No kubelet runs the Deployment's Pods here, which it reports.
    "butler-ipam status",
)
"""Lines whose exit status 1 says that they found something."""


def pages() -> list[str]:
    """Return the names of the pages that have something to type."""
    return [Path(page).stem for page in OPERATING if list(commands(page))]


def document(page: str) -> str:
    """Return the path of a page of the guide."""
    return f"docs/operating/{page}.md"


def lines(page: str, heading: str = "") -> list[str]:
    """Return the lines that a reader of a page types, in the order of the text.

    With a heading, only the lines of that section.
    """
    sorted_commands = sorted(commands(document(page), heading), key=lambda command: command.line)
    return [command.line_text for command in sorted_commands if command.line_text not in NOT_TYPED]


def blocks(page: str, heading: str = "") -> list[str]:
    """Return the lines that a page has to be copied, in order."""
    return [command.line_text for command in commands(document(page), heading) if command.block]


async def type_line(cluster: Cluster, desk: Path, line: str) -> str:
    """Type a line at a desk from where the manifests are seen; it has to succeed."""
    if not (desk / "manifests").exists():
        (desk / "manifests").symlink_to(ROOT / "manifests")
    folders = f"{Path(sys.executable).parent}:{Path(program('kubectl')).parent}"
    script = f'export PATH="{folders}:$PATH"; cd "{desk}"; {line}'
    code, said, complained = await cluster.run("sh", "-c", script)
    allowed = {0, 1} if line.startswith(MAY_FIND) else {0}
    assert code in allowed, f"{line}: {complained or said}"
    assert "error:" not in complained.lower(), f"{line}: {complained}"
    return said
