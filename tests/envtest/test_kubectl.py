"""What people do with kubectl, done with the real one."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
import yaml

from envtest import ControlPlane
from tests.envtest.kube import Kubectl, skip_reason
from tests.envtest.samples import build_gauge, build_gauge_definition
from tests.polling import SECONDS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(skip_reason()), reason=skip_reason() or "kubectl is there"),
]

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:1", env: [{name: A, value: "1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}
"""


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Yield kubectl for a control plane that serves gauges."""
    async with ControlPlane.start() as plane:
        await plane.install_crds([build_gauge_definition()])
        yield Kubectl(plane.write_kubeconfig(tmp_path / "kubeconfig"))


def encode_yaml(*objects: object) -> str:
    return yaml.safe_dump_all(objects)


async def test_apply_creates_then_leaves_alone_then_changes(kubectl: Kubectl) -> None:
    first = await kubectl("apply", "-f", "-", content=encode_yaml(build_gauge("a", count=2)))
    again = await kubectl("apply", "-f", "-", content=encode_yaml(build_gauge("a", count=2)))
    changed = await kubectl("apply", "-f", "-", content=encode_yaml(build_gauge("a", count=3)))

    assert [output_line.split()[-1] for output_line in (first, again, changed)] == [
        "created",
        "unchanged",
        "configured",
    ]
    assert await kubectl("get", "gauge", "a", "-o", "jsonpath={.spec.count}") == "3"


async def test_a_list_is_applied_and_an_unknown_kind_is_named(kubectl: Kubectl) -> None:
    whole = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [build_gauge("a", count=2), build_gauge("b")],
    }
    reported = await kubectl("apply", "-f", "-", content=encode_yaml(whole))
    assert [line.split()[-1] for line in reported.splitlines()] == ["created", "created"]
    unknown = {"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "a"}}
    code, refused = await kubectl.run("apply", "-f", "-", content=encode_yaml(unknown))
    assert code == 1
    assert 'no matches for kind "Nothing" in version "example.com/v1"' in refused


async def test_server_side_apply_names_the_manager_that_it_conflicts_with(
    kubectl: Kubectl,
) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    await kubectl(*apply, "--field-manager=one", content=encode_yaml(build_gauge("a", count=2)))
    refused = await kubectl.run(
        *apply, "--field-manager=two", content=encode_yaml(build_gauge("a", count=3))
    )
    forced = await kubectl(
        *apply,
        "--field-manager=two",
        "--force-conflicts",
        content=encode_yaml(build_gauge("a", count=3)),
    )

    assert refused[0] != 0
    assert 'conflict with "one"' in refused[1]
    assert "serverside-applied" in forced


async def test_built_in_kinds_apply_and_merge_by_their_keys(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", content=DEPLOYMENT)
    await kubectl("apply", "-f", "-", content=DEPLOYMENT.replace('value: "1"', 'value: "2"'))
    patch = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"b"}]}}}}'
    await kubectl("patch", "deployment", "web", "-p", patch)

    containers = await kubectl(
        "get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[*].name}"
    )
    assert containers.split() == ["side", "main"]
    assert "LoadBalancer" in await kubectl("get", "service", "web")
    assert "Replicas" in await kubectl("describe", "deployment", "web")


async def test_diff_shows_the_changes_that_apply_would_make(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", content=encode_yaml(build_gauge("a", count=2)))

    code, output = await kubectl.run(
        "diff", "-f", "-", content=encode_yaml(build_gauge("a", count=5))
    )

    assert code == 1
    assert "+  count: 5" in output


async def test_get_prints_all_its_formats(kubectl: Kubectl) -> None:
    labelled = build_gauge("b", count=4)
    labelled["metadata"]["labels"] = {"tier": "gold"}
    await kubectl(
        "create", "-f", "-", content=encode_yaml(build_gauge("a", place="hall"), labelled)
    )

    assert [line.split() for line in (await kubectl("get", "ga")).splitlines()] == [
        ["NAME", "COUNT"],
        ["a", "1"],
        ["b", "4"],
    ]
    assert "kind: Gauge" in await kubectl("get", "gauge", "a", "-o", "yaml")
    assert '"kind": "List"' in await kubectl("get", "gauges", "-o", "json")
    assert (await kubectl("get", "gauge", "-o", "custom-columns=N:.metadata.name")).split() == [
        "N",
        "a",
        "b",
    ]
    by_label = await kubectl("get", "gauges", "-l", "tier=gold", "-o", "name")
    by_field = await kubectl("get", "gauges", "--field-selector=spec.place=hall", "-o", "name")
    assert (by_label.strip(), by_field.strip()) == (
        "gauge.lab.example.com/b",
        "gauge.lab.example.com/a",
    )


async def test_get_watch_shows_later_changes(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", content=encode_yaml(build_gauge("early", count=6)))
    with anyio.fail_after(SECONDS):
        async with kubectl.stream_lines("get", "gauges", "-w", "--no-headers") as next_line:
            # What was listed is shown before the watch goes on from there.
            listed = await next_line()
            await kubectl("create", "-f", "-", content=encode_yaml(build_gauge("late", count=7)))
            seen = await next_line()

    assert (listed.split(), seen.split()) == (["early", "6"], ["late", "7"])


async def test_explain_describes_custom_and_built_in_kinds(kubectl: Kubectl) -> None:
    # A real server publishes the schema of a new kind a moment after it is established.
    with anyio.fail_after(SECONDS):
        while (await kubectl.run("explain", "gauge.spec.place"))[0] != 0:
            await anyio.lowlevel.checkpoint()
    assert "Where it hangs." in await kubectl("explain", "gauge.spec.place")
    assert "ExternalName" in await kubectl("explain", "service.spec.type")


async def test_edit_label_annotate_and_every_kind_of_patch(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", content=encode_yaml(build_gauge("a", count=2)))
    await kubectl("edit", "gauge", "a", KUBE_EDITOR="sed -i /count/s/2/3/")
    await kubectl("label", "gauge", "a", "tier=gold")
    await kubectl("annotate", "gauge", "a", "note=x")
    await kubectl("patch", "gauge", "a", "--type=merge", "-p", '{"spec":{"place":"hall"}}')
    operation = '[{"op":"add","path":"/metadata/labels/more","value":"y"}]'
    await kubectl("patch", "gauge", "a", "--type=json", "-p", operation)
    await kubectl("scale", "gauge", "a", "--replicas=9")

    shown_gauge = await kubectl("get", "gauge", "a", "-o", "jsonpath={.spec}{.metadata.labels}")
    assert shown_gauge == '{"count":9,"place":"hall"}{"more":"y","tier":"gold"}'


async def test_wait_sees_conditions_and_deletions(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", content=encode_yaml(build_gauge("a")))
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    await kubectl("patch", "gauge", "a", "--subresource=status", "--type=merge", "-p", ready)
    await kubectl("wait", "--for=condition=Ready", "gauge/a", "--timeout=5s")
    await kubectl("delete", "gauge", "a", "--wait=false")
    await kubectl("wait", "--for=delete", "gauge/a", "--timeout=5s")

    code, output = await kubectl.run("get", "gauge", "a")
    assert (code, "NotFound" in output) == (1, True)


async def test_imperative_commands_send_bodies_that_the_server_can_read(kubectl: Kubectl) -> None:
    """Kubectl sends these kinds as protobuf."""
    await kubectl("create", "namespace", "other")
    await kubectl("create", "configmap", "c", "--from-literal=a=b")
    await kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    await kubectl("create", "deployment", "d", "--image=nginx:1", "--replicas=2")
    await kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    await kubectl("create", "job", "j", "--image=busybox", "--", "true")
    await kubectl("scale", "deployment", "d", "--replicas=0")
    await kubectl("create", "serviceaccount", "bob")
    token = (await kubectl("create", "token", "bob")).strip()

    assert token.count(".") == 2
    assert await kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}") == "b"
    assert await kubectl("get", "secret", "s", "-o", "jsonpath={.data.a}{.type}") == "Yg==Opaque"
    assert await kubectl("get", "deploy", "d", "-o", "jsonpath={.spec.replicas}") == "0"


async def test_discovery_and_rights_are_shown(kubectl: Kubectl) -> None:
    assert "gauges" in await kubectl("api-resources")
    assert "lab.example.com/v1" in await kubectl("api-versions")
    assert (await kubectl("auth", "can-i", "create", "gauges")).strip() == "yes"
    code, output = await kubectl.run("auth", "can-i", "list", "secrets", "--as=nobody")
    assert (code, output.strip()) == (1, "no")
    assert await kubectl("get", "--raw", "/readyz") == "ok"
    assert "Server Version" in await kubectl("version")
