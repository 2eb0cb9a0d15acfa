"""Kubeconfigs are read by a part of kubernetes_asyncio; the rest of it is not loaded."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.config import connect
from controller.errors import ConfigurationError
from tests.controller.kubeconfigs import write_kubeconfig

SCRIPT = """
import json, sys, anyio
if sys.argv[2] == "before":
    import kubernetes_asyncio
from pathlib import Path
from controller.config import connect

async def main():
    transport = await connect(Path(sys.argv[1]))
    server = transport.server
    await transport.aclose()
    return server

server = anyio.run(main)
modules = [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
import kubernetes_asyncio
pod = kubernetes_asyncio.client.V1Pod(kind="Pod")
api = kubernetes_asyncio.client.ApiClient.__name__
from kubernetes_asyncio import config
print(json.dumps({"server": server, "loaded": len(modules), "kind": pod.kind, "api": api,
                  "configuration": config.kube_config.Configuration.__module__}))
"""


NO_CREDENTIALS = "gave neither a token nor a client certificate with its key"


def run_script(file: Path, when: str) -> dict[str, Any]:
    """Run SCRIPT, which connects by `connect` and uses kubernetes_asyncio; return what it prints.

    Args:
        file: the kubeconfig.
        when: whether the script imports kubernetes_asyncio `before` or `after` it connects.
    """
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file), when],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout
    document: dict[str, Any] = json.loads(printed)
    return document


@pytest.mark.slow
@pytest.mark.parametrize("when", ["after", "before"])
def test_a_program_that_imports_kubernetes_asyncio_itself_can_use_all_of_it(
    tmp_path: Path, when: str
) -> None:
    file = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1", {"token": "good"})
    printed = run_script(file, when)
    assert printed["server"] == "http://127.0.0.1:1"
    assert (printed["kind"], printed["api"]) == ("Pod", "ApiClient")
    assert printed["configuration"] == "kubernetes_asyncio.client.configuration"
    if when == "after":
        assert printed["loaded"] == 0


@pytest.mark.parametrize(
    ("plugin_output", "message_part"),
    [
        ("", "exec: process returned 3. log in first"),
        ("{", "exec: failed to decode process output"),
        ({"apiVersion": "v1", "kind": "ExecCredential", "status": {}}, NO_CREDENTIALS),
        ({"apiVersion": "v1", "kind": "ExecCredential", "status": {"token": ""}}, NO_CREDENTIALS),
        (
            {
                "apiVersion": "v1",
                "kind": "ExecCredential",
                "status": {"clientCertificateData": "c"},
            },
            NO_CREDENTIALS,
        ),
    ],
)
async def test_the_failure_of_an_exec_plugin_is_in_the_error_and_not_printed_too(
    tmp_path: Path,
    plugin_output: Any,
    message_part: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a program that sets up none
    output = plugin_output if isinstance(plugin_output, str) else json.dumps(plugin_output)
    script = f"echo '{output}'" if output else "echo log in first >&2; exit 3"
    plugin = {"apiVersion": "v1", "command": "sh", "args": ["-c", script]}
    file = write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1", {"exec": plugin})
    with pytest.raises(ConfigurationError) as caught:
        await connect(file)
    assert message_part in str(caught.value)
    assert str(file) in str(caught.value)
    assert capfd.readouterr().err == ""
