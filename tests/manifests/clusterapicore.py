"""Cluster API's own core controllers, with their webhooks and their conversion, as a process.

There are no pods here and no cert-manager. So the process is started on this machine, and its
webhooks are called at an address here, with a certificate of the tests.
"""

import base64
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx

from envtest.certs import Authority
from tests.manifests.clusterctl import find_cluster_api_program
from tests.manifests.clusters import Cluster
from tests.manifests.test_running import choose_free_port
from tests.polling import until
from tests.servers import program as find_tool

NAMESPACE = "capi-system"
CONFIGURATIONS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
Json = dict[str, Any]


def render_core_manifests() -> str:
    """Return the manifests of Cluster API's core, rendered by `kubectl kustomize`."""
    folder = Path(find_cluster_api_program("core-manager")).with_name("core-config")
    command = [find_tool("kubectl"), "kustomize", str(folder / "default")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


@asynccontextmanager
async def run_core_controllers(cluster: Cluster) -> AsyncIterator[None]:
    """Run the core's controllers against a cluster that has the core's manifests."""
    folder = anyio.Path(cluster.folder / "core")
    await folder.mkdir()
    authority = Authority.create()
    webhook_port, health_port = choose_free_port(), choose_free_port()
    authority.issue_server_certificate("127.0.0.1").write(Path(folder), "tls")
    await _redirect_webhooks(cluster, webhook_port, authority.pair.certificate)
    command = [
        find_cluster_api_program("core-manager"),
        f"--webhook-port={webhook_port}",
        f"--webhook-cert-dir={folder}",
        "--webhook-cert-name=tls.crt",
        "--webhook-key-name=tls.key",
        f"--health-addr=127.0.0.1:{health_port}",
        f"--diagnostics-address=127.0.0.1:{choose_free_port()}",
        "--insecure-diagnostics=true",
    ]
    environ = {
        **os.environ,
        "KUBECONFIG": str(cluster.config),
        "POD_NAMESPACE": NAMESPACE,
        "POD_NAME": "core",
        "POD_UID": "core",
    }
    async with (
        await anyio.open_file(folder / "log", "wb") as log,
        await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stdout=log.wrapped, stderr=log.wrapped, env=environ
        ) as process,
        httpx.AsyncClient() as http,
    ):

        async def is_ready() -> bool:
            log_text = await (folder / "log").read_text()
            assert process.returncode is None, log_text[-2000:]
            try:
                return (await http.get(f"http://127.0.0.1:{health_port}/readyz")).is_success
            except httpx.TransportError:
                return False

        try:
            await until(is_ready, bool)
            yield
        finally:
            process.terminate()
            with anyio.move_on_after(20, shield=True):
                await process.wait()


async def _redirect_webhooks(cluster: Cluster, port: int, authority: bytes) -> None:
    """Point the core's webhooks and conversions at a port of this machine.

    Args:
        cluster: the cluster with the core's manifests.
        port: where the core's process listens.
        authority: the certificate of the CA that the API server has to trust, as PEM.
    """
    bundle = base64.b64encode(authority).decode()
    selected = ("-l", "cluster.x-k8s.io/provider=cluster-api", "-o", "json")

    def make_client_config(client: Json) -> Json:
        path = client["service"]["path"]
        return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}

    for kind in CONFIGURATIONS:
        for item in json.loads(await cluster.kubectl("get", kind, *selected))["items"]:
            for webhook in item["webhooks"]:
                webhook["clientConfig"] = make_client_config(webhook["clientConfig"])
            await cluster.kubectl("replace", "-f", "-", stdin=json.dumps(item))
    for item in json.loads(await cluster.kubectl("get", "crd", *selected))["items"]:
        conversion = item["spec"].get("conversion", {}).get("webhook")
        if conversion is None:
            continue
        patch = [
            {
                "op": "replace",
                "path": "/spec/conversion/webhook/clientConfig",
                "value": make_client_config(conversion["clientConfig"]),
            }
        ]
        name = item["metadata"]["name"]
        await cluster.kubectl("patch", "crd", name, "--type=json", f"--patch={json.dumps(patch)}")
