"""Every command of kubectl that needs no running pods, done with the real one."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from envtest import ControlPlane
from envtest.settings import read_settings
from tests.envtest.kube import Kubectl, skip_reason
from tests.envtest.samples import build_gauge, build_gauge_definition
from tests.polling import SECONDS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(skip_reason()), reason=skip_reason() or "kubectl is there"),
]


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Yield kubectl for a control plane that serves gauges."""
    async with ControlPlane.start() as plane:
        await plane.install_crds([build_gauge_definition()])
        yield Kubectl(plane.write_kubeconfig(tmp_path / "kubeconfig"))


def encode_yaml(*objects: object) -> str:
    return yaml.safe_dump_all(objects)


def make_labelled(name: str, **spec: Any) -> dict[str, Any]:
    body = build_gauge(name, **spec)
    body["metadata"]["labels"] = {"app": "x"}
    return body


def list_names(output: str) -> list[str]:
    return [line.split()[0] for line in output.splitlines()]


async def test_every_generator_creates_its_kind(kubectl: Kubectl) -> None:
    commands = [
        "configmap c --from-literal=a=b",
        "secret generic s --from-literal=a=b --type=x/y",
        "secret docker-registry d --docker-username=u --docker-password=p",
        "namespace n",
        "serviceaccount a",
        "role r --verb=get,list --resource=pods",
        "rolebinding b --role=r --serviceaccount=default:a",
        "clusterrole cr --verb=get --resource=nodes",
        "clusterrole paths --verb=get --non-resource-url=/metrics",
        "clusterrole sum --aggregation-rule=a=b",
        "clusterrolebinding crb --clusterrole=cr --user=bob --group=g",
        "deployment web --image=nginx:1 --replicas=2 --port=80",
        "service clusterip one --tcp=80:8080",
        "service nodeport two --tcp=80",
        "service loadbalancer three --tcp=80",
        "service externalname four --external-name=example.com",
        "quota q --hard=pods=4",
        "job j --image=busybox:1",
        "ingress i --rule=foo.com/bar=one:80",
        "poddisruptionbudget p --selector=a=b --min-available=1",
        "priorityclass high --value=5",
    ]
    for command in commands:
        assert (await kubectl("create", *command.split())).strip().endswith("created"), command
    await kubectl("create", "cronjob", "cj", "--image=busybox:1", "--schedule=* * * * *")
    await kubectl("create", "job", "j2", "--from=cronjob/cj")
    token = await kubectl("create", "token", "a", "--duration=20m", "--audience=x")

    assert token.count(".") == 2
    services = list_names(await kubectl("get", "svc", "--no-headers"))
    assert services == ["four", "kubernetes", "one", "three", "two"]
    listed = await kubectl("get", "jobs,cronjobs,quota,ing,pdb,sa,role", "-o", "name")
    assert {"job.batch/j", "job.batch/j2", "cronjob.batch/cj", "resourcequota/q"} <= set(
        listed.split()
    )


async def test_imperative_changes_reach_the_objects(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=2")
    commands = [
        "set image deployment/web nginx=nginx:2",
        "set env deployment/web A=B",
        "set resources deployment/web --limits=cpu=1",
        "set serviceaccount deployment/web bob",
        "rollout restart deployment/web",
        "rollout pause deployment/web",
        "rollout resume deployment/web",
        "scale deployment web --current-replicas=2 --replicas=4",
        "expose deployment web --port=80",
        "run pod --image=nginx:1",
        "expose pod pod --port=80 --name=direct",
        "set selector service direct a=b",
    ]
    for command in commands:
        await kubectl(*command.split())
    spec = json.loads(await kubectl("get", "deployment", "web", "-o", "json"))["spec"]
    container = spec["template"]["spec"]["containers"][0]

    assert (spec["replicas"], container["image"]) == (4, "nginx:2")
    assert container["env"] == [{"name": "A", "value": "B"}]
    assert container["resources"] == {"limits": {"cpu": "1"}}
    assert spec["template"]["spec"]["serviceAccountName"] == "bob"
    assert "a=b" in await kubectl("get", "service", "direct", "-o", "wide")
    code, reported = await kubectl.run("rollout", "status", "deployment/web", "--timeout=1s")
    assert (code, "timed out" in reported) == (1, True)


async def test_get_sorts_labels_pages_and_templates(kubectl: Kubectl) -> None:
    await kubectl(
        "create",
        "-f",
        "-",
        content=encode_yaml(make_labelled("a", count=2), make_labelled("b", count=1)),
    )
    template = "go-template={{range .items}}{{.metadata.name}};{{end}}"

    assert list_names(await kubectl("get", "ga", "--sort-by=.spec.count", "--no-headers")) == [
        "b",
        "a",
    ]
    assert list_names(await kubectl("get", "ga", "--chunk-size=1", "--no-headers")) == ["a", "b"]
    assert "app=x" in await kubectl("get", "ga", "a", "--show-labels")
    assert (await kubectl("get", "ga", "-L", "app")).splitlines()[0].split()[-1] == "APP"
    across = (await kubectl("get", "ga", "-A")).splitlines()
    assert across[1].split() == ["default", "a", "2"]
    assert await kubectl("get", "ga", "-o", template) == "a;b;"
    assert await kubectl("get", "ga", "a", "--subresource=status", "-o", "name") == (
        "gauge.lab.example.com/a\n"
    )


async def test_get_watches_events_only_when_asked(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", content=encode_yaml(build_gauge("early")))
    columns = "-o=custom-columns=T:.type,N:.object.metadata.name"
    options = ("--watch-only", "--output-watch-events", "--no-headers", columns)
    with anyio.fail_after(SECONDS):
        async with kubectl.stream_lines("get", "gauges", *options) as next_line:
            # The watch may stand a moment later than the program; what comes first is all one.
            seen = []
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_make_more, kubectl)
                seen = (await next_line()).split()
                tasks.cancel_scope.cancel()

    assert seen[0] == "ADDED"
    assert seen[1].startswith("late-")


async def _make_more(kubectl: Kubectl) -> None:
    body = build_gauge("")
    body["metadata"] = {"generateName": "late-"}
    while True:
        await kubectl("create", "-f", "-", content=encode_yaml(body))


async def test_describe_shows_custom_and_built_in_kinds(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", content=encode_yaml(build_gauge("a", count=7)))
    await kubectl("create", "service", "loadbalancer", "s", "--tcp=80")
    await kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    await kubectl("create", "deployment", "d", "--image=nginx:1")

    assert "Count:  7" in await kubectl("describe", "gauge", "a")
    assert "LoadBalancer" in await kubectl("describe", "service", "s")
    assert "[get]" in await kubectl("describe", "role", "r")
    assert "nginx:1" in await kubectl("describe", "deployment", "d")
    assert "Active" in await kubectl("describe", "namespace", "default")
    assert "gauges.lab.example.com" in await kubectl("describe", "crd")
    assert "cluster-admin" in await kubectl("describe", "clusterrolebinding", "cluster-admin")


async def test_apply_prunes_and_rehearses(kubectl: Kubectl) -> None:
    both = encode_yaml(make_labelled("a", count=1), make_labelled("b", count=1))
    await kubectl("apply", "-f", "-", content=both)
    rehearsed = await kubectl(
        "apply", "-f", "-", "--dry-run=server", content=encode_yaml(make_labelled("a", count=5))
    )
    count = await kubectl("get", "gauge", "a", "-o", "jsonpath={.spec.count}")
    pruning = ("--prune", "-l", "app=x", "--prune-allowlist=lab.example.com/v1/Gauge")
    pruned = await kubectl(
        "apply", "-f", "-", *pruning, content=encode_yaml(make_labelled("a", count=1))
    )
    last = await kubectl("apply", "view-last-applied", "gauge/a")

    assert ("configured (server dry run)" in rehearsed, count) == (True, "1")
    assert "gauge.lab.example.com/b pruned" in pruned
    assert "count: 1" in last


async def test_replace_works_also_by_force(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", content=encode_yaml(build_gauge("a", count=1)))
    uid = ("get", "gauge", "a", "-o", "jsonpath={.metadata.uid}")
    first = await kubectl(*uid)
    await kubectl("replace", "-f", "-", content=encode_yaml(build_gauge("a", count=2)))
    second = await kubectl(*uid)
    await kubectl("replace", "--force", "-f", "-", content=encode_yaml(build_gauge("a", count=3)))
    third = await kubectl(*uid)

    assert first == second != third
    assert await kubectl("get", "gauge", "a", "-o", "jsonpath={.spec.count}") == "3"


async def test_delete_works_in_all_its_ways(kubectl: Kubectl) -> None:
    await kubectl(
        "create", "-f", "-", content=encode_yaml(*(make_labelled(name) for name in "abcdef"))
    )
    await kubectl("delete", "gauge", "a", "--wait=false")
    await kubectl("delete", "gauge", "b", "--grace-period=0", "--force")
    await kubectl("delete", "gauge", "c", "--cascade=foreground", "--wait=false")
    await kubectl("delete", "gauge", "d", "--cascade=orphan", "--wait=false")
    output = await kubectl(
        "get", "gauge", "c", "d", "-o", "jsonpath={.items[*].metadata.finalizers}"
    )
    for name in "cd":
        await kubectl(
            "patch", "gauge", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
        )
    dry = await kubectl("delete", "gauge", "e", "--dry-run=server")
    await kubectl("delete", "gauge", "-l", "app=x")
    none = await kubectl("delete", "gauge", "--all")
    await kubectl("delete", "gauge", "a", "--ignore-not-found")

    # With a collector at work these two are gone already.
    assert output in {'["foregroundDeletion"] ["orphan"]', ""}
    assert "deleted" in dry
    assert "(server dry run)" in dry  # newer ones name the namespace between the two
    assert "No resources found" in none


async def test_wait_waits_for_values_and_creation(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", content=encode_yaml(build_gauge("a", place="hall")))
    path = "{.spec.place}=hall"
    await kubectl("wait", f"--for=jsonpath={path}", "gauge/a", "--timeout=10s")
    code, reported = await kubectl.run(
        "wait", "--for=jsonpath={.spec.place}=attic", "gauge/a", "--timeout=1s"
    )

    assert (code, "timed out" in reported) == (1, True)


async def test_rights_are_reconciled_and_reviewed(kubectl: Kubectl) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": "rec"}}
    role = {**head, "kind": "ClusterRole", "rules": rules}
    binding = {
        **head,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "rec"},
        "subjects": [{"kind": "User", "name": "x", "apiGroup": group}],
    }
    reported = await kubectl("auth", "reconcile", "-f", "-", content=encode_yaml(role, binding))
    again = await kubectl("auth", "reconcile", "-f", "-", content=encode_yaml(role, binding))

    assert "missing rules added" in reported
    assert "missing" not in again
    assert (await kubectl("auth", "can-i", "get", "pods", "--as=x")).strip() == "yes"
    assert "pods" in await kubectl("auth", "can-i", "--list", "--as=x")
    assert "system:masters" in await kubectl("auth", "whoami")
    code, refused = await kubectl.run("get", "secrets", "--as=x", "--as-group=g")
    assert (code, 'User "x" cannot list resource "secrets"' in refused) == (1, True)


async def test_discovery_can_be_filtered(kubectl: Kubectl) -> None:
    listed = await kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name")
    wide = await kubectl("api-resources", "-o", "wide", "--api-group=apps")

    assert {"gauges.lab.example.com", "configmaps"} <= set(listed.split())
    assert "nodes" not in listed.split()
    assert "deletecollection" in wide
    assert "deployments" in await kubectl("api-resources", "--categories=all")
    assert "running at https://" in await kubectl("cluster-info")
    assert '"serverVersion"' in await kubectl("version", "-o", "json")
    assert "[+]ping ok" in await kubectl("get", "--raw", "/readyz?verbose")
    assert "[]EnvVar" in await kubectl("explain", "pods.spec.containers", "--recursive")
    assert "DATA+OMITTED" in await kubectl("config", "view")
    assert "kubectl" in await kubectl("completion", "bash")


async def test_documents_that_kubectl_reads_by_itself_are_served(kubectl: Kubectl) -> None:
    dumped = await kubectl("cluster-info", "dump")
    # Without an allowlist it lists a fixed set of kinds, ReplicationControllers among them.
    pruned = await kubectl(
        "apply", "--prune", "-l", "app=x", "-f", "-", content=encode_yaml(make_labelled("b"))
    )

    assert '"ReplicationControllerList"' in dumped
    assert "gauge.lab.example.com/b created" in pruned


async def test_raw_paths_are_read_written_and_proxied(kubectl: Kubectl) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    output = await kubectl(
        "create", "--raw", path, "-f", "-", content=json.dumps({"metadata": {"name": "raw"}})
    )
    raw_object = await kubectl("get", "--raw", f"{path}/raw")
    gone = await kubectl("delete", "--raw", f"{path}/raw")

    assert json.loads(output)["metadata"] == json.loads(raw_object)["metadata"]
    assert json.loads(gone)["status"] == "Success"
    with anyio.fail_after(SECONDS):
        async with kubectl.stream_lines("proxy", "--port=0") as next_line:
            address = (await next_line()).strip().rpartition(" ")[2]
            host, _, port = address.rpartition(":")
            stream = await anyio.connect_tcp(host, int(port))
            async with stream:
                await stream.send(b"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n")
                answer = b""
                with contextlib.suppress(anyio.EndOfStream):
                    while True:
                        answer += await stream.receive()

    assert b"gitVersion" in answer


async def test_kustomizations_are_built_applied_and_deleted(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    (tmp_path / "gauges.yaml").write_text(
        encode_yaml(build_gauge("a"), build_gauge("b")), encoding="utf-8"
    )
    whole = {"resources": ["gauges.yaml"], "namePrefix": "k-"}
    (tmp_path / "kustomization.yaml").write_text(encode_yaml(whole), encoding="utf-8")

    assert "k-a" in await kubectl("kustomize", str(tmp_path))
    await kubectl("apply", "-k", str(tmp_path))
    assert list_names(await kubectl("get", "ga", "--no-headers")) == ["k-a", "k-b"]
    await kubectl("delete", "-k", str(tmp_path))
    assert "No resources found" in await kubectl("get", "ga")


@pytest.mark.skipif(read_settings().kind != "embedded", reason="a real server serves these kinds")
async def test_a_kind_that_is_not_served_is_reported_as_unknown(kubectl: Kubectl) -> None:
    code, reported = await kubectl.run("get", "storageclasses")
    assert (code, reported.strip()) == (
        1,
        'error: the server doesn\'t have a resource type "storageclasses"',
    )
    code, reported = await kubectl.run("autoscale", "deployment", "web", "--max=3")
    assert (code, "not found" in reported.lower()) == (1, True)


async def test_nodes_are_cordoned_and_tainted(kubectl: Kubectl) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}
    await kubectl("create", "-f", "-", content=encode_yaml(node))
    await kubectl("cordon", "node")
    cordoned = await kubectl("get", "node", "node", "-o", "jsonpath={.spec.unschedulable}")
    await kubectl("uncordon", "node")
    await kubectl("taint", "nodes", "node", "a=b:NoSchedule")

    assert cordoned == "true"
    assert await kubectl("get", "node", "node", "-o", "jsonpath={.spec.taints[0].key}") == "a"


async def test_events_are_shown_with_their_objects(kubectl: Kubectl) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Gauge", "name": "a", "namespace": "default"},
        "reason": "Measured",
        "message": "All is well",
        "type": "Normal",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    await kubectl("create", "-f", "-", content=encode_yaml(event))

    for command in (("get", "events"), ("events",)):
        lines = (await kubectl(*command)).splitlines()
        assert lines[0].split()[:2] == ["LAST", "SEEN"]
        assert "Measured" in lines[1]
        assert "All is well" in lines[1]
        assert "gauge/a" in lines[1].lower()
