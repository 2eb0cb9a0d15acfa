"""The operator's guide as it is typed: its lines in order, and those that no test types."""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.docs.text import Command, commands, headings, section
from tests.manifests.clusters import Cluster
from tests.reconcilers.cli.commands import ROOT
from tests.servers import program

GUIDE = "OPERATIONS.md"
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


def sections() -> list[str]:
    """Return the headings of the second level below which something is to be typed."""
    every = [one for one in headings(GUIDE) if f"\n## {one}\n" in (ROOT / GUIDE).read_text()]
    return [one for one in every if list(commands(GUIDE, one))]


def lines(heading: str) -> list[str]:
    """Return what a section has to be typed, blocks and sentences, in the order of the text."""
    found = sorted(_placed(heading), key=lambda one: one[0])
    return [line for _, line in found if line not in NOT_TYPED]


def _placed(heading: str) -> Iterator[tuple[int, str]]:
    text = section(GUIDE, heading)
    for one in commands(GUIDE, heading):
        yield _row(one, text), one.text


def _row(one: Command, text: str) -> int:
    if one.block:
        return int(one.place.rpartition(":")[2]) - 1
    spelled = r"\s+".join(map(re.escape, one.text.split()))
    found = re.search(f"`{spelled}`", text)
    assert found is not None, one
    return text[: found.start()].count("\n")


async def typed(cluster: Cluster, desk: Path, line: str) -> str:
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
