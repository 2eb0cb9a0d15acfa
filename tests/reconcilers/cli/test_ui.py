"""`butler-ipam ui` and `run --ui-bind-address`: the live page over a real connection."""

import json
import signal
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import httpx
import pytest

from controller.codec import encode
from reconcilers.api.crd import build_crds
from reconcilers.cli.local.objects import make_namespaces
from reconcilers.cli.local.servers import ApiServer, run_api_server
from tests.polling import SECONDS
from tests.reconcilers.cli import commandline
from tests.reconcilers.cli.commands import find_installed_command, start
from tests.reconcilers.cli.test_run import write_kubeconfig

SERVERS_OFF = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
POOLS = "/apis/butler.butlerlabs.dev/v1alpha1/namespaces/butler-system/networkpools"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def create_object(server: ApiServer, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """POST an object to a path of the API; return the answer."""
    answer = await server.transport.request("POST", path, body=encode(body))
    document: dict[str, Any] = json.loads(answer)
    return document


async def create_pool(server: ApiServer) -> None:
    """Create the namespace butler-system, and NetworkPool `lab` in it."""
    await make_namespaces(server.transport, ["butler-system"])
    body = commandline.make_pool("lab", "10.0.0.0/24")
    meta = {name: body["metadata"][name] for name in ("name", "namespace")}
    await create_object(server, POOLS, body | {"metadata": meta, "status": {}})


async def read_first_message(url: str, token: str) -> dict[str, Any]:
    """Return the first message of the stream of updates that a reader with a token gets."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{url}/ui/updates", headers=headers, ssl=False) as answer,
    ):
        assert answer.status == 200, await answer.text()
        with anyio.fail_after(SECONDS):
            while not (line := await answer.content.readline()).startswith(b"data: "):
                assert line, "the stream ended"
        document: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
        return document


async def test_ui_serves_the_pools_of_a_cluster_to_readers_with_the_token_of_its_url(
    tmp_path: Path,
) -> None:
    async with run_api_server("management", build_crds()) as server:
        await create_pool(server)
        arguments = ("ui", write_kubeconfig(server, tmp_path), "--listen=127.0.0.1:0")
        async with start(*arguments, program=find_installed_command) as running:
            match = await running.wait_for_output(r"the map is at (http://\S+)/#token=(\S+)")
            message = await read_first_message(match[1], match[2])
            assert message["order"] == ["butler-system/lab 10.0.0.0/24"]
            assert await running.stop(signal.SIGINT) == 0


async def test_run_serves_the_page_to_users_with_the_right_by_rbac(tmp_path: Path) -> None:
    """The stream answers 401 without a token, 403 without the right, and 200 with both."""
    async with run_api_server("management", build_crds()) as server:
        await create_pool(server)
        tokens = [await create_service_account(server, name) for name in ("viewer", "other")]
        await grant_reading(server, "viewer")
        async with start(
            "run",
            write_kubeconfig(server, tmp_path),
            *SERVERS_OFF,
            "--ui-bind-address=127.0.0.1:0",
        ) as running:
            match = await running.wait_for_output(r"ui-address\W+(127\.0\.0\.1:[0-9]+)")
            url = f"https://{match[1]}"
            async with httpx.AsyncClient(verify=False) as client:
                headers = {"Authorization": f"Bearer {tokens[1]}"}
                codes = [
                    (await client.get(f"{url}/")).status_code,
                    (await client.get(f"{url}/ui/updates")).status_code,
                    (await client.get(f"{url}/ui/updates", headers=headers)).status_code,
                ]
            assert codes == [200, 401, 403]
            message = await read_first_message(url, tokens[0])
            assert message["order"] == ["butler-system/lab 10.0.0.0/24"]
            assert await running.stop(signal.SIGTERM) == 0


async def create_service_account(server: ApiServer, name: str) -> str:
    """Create a ServiceAccount; return a token of it."""
    accounts = "/api/v1/namespaces/butler-system/serviceaccounts"
    await create_object(server, accounts, {"metadata": {"name": name}})
    response = await create_object(server, f"{accounts}/{name}/token", {"spec": {}})
    return str(response["status"]["token"])


async def grant_reading(server: ApiServer, account: str) -> None:
    """Grant a ServiceAccount the right to read the page's stream of updates."""
    rule = {"nonResourceURLs": ["/ui/updates"], "verbs": ["get"]}
    name = {"metadata": {"name": "map-reader"}}
    await create_object(server, f"{RBAC}/clusterroles", {**name, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "map-reader"}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "butler-system"}
    binding = {**name, "roleRef": role, "subjects": [subject]}
    await create_object(server, f"{RBAC}/clusterrolebindings", binding)


@pytest.mark.parametrize(
    ("listen", "complaint"),
    [
        ("nowhere", "cannot be parsed: write HOST:PORT"),
        ("0", "turns the page off"),
        ("0.0.0.0:8090", "`butler-ipam run --ui-bind-address` serves it to others"),
    ],
)
def test_ui_rejects_a_wrong_address(listen: str, complaint: str) -> None:
    done = commandline.run("ui", f"--listen={listen}")
    assert done.code == 2
    assert complaint in done.err


async def test_the_demo_shows_its_story_on_the_page() -> None:
    async with start("demo", "--ui") as running:
        match = await running.wait_for_output(r"the map +(http://\S+)/#token=(\S+)")
        await running.wait_for_output("An administrator declares two pools")
        message = await read_first_message(match[1], match[2])
        assert "states" in message["style"]
        await running.stop(signal.SIGINT)


def test_the_demo_in_steps_needs_a_terminal() -> None:
    done = commandline.run("demo", "--step")
    assert done.code == 2
    assert "no terminal" in done.err
