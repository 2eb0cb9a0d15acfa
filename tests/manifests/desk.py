"""An operator who types the lines of the operator's guide.

No pods run in the cluster. The controller is a process of this machine under the installed
ServiceAccount, started where a person would wait for the pods. The API server calls the webhooks
at a port of this machine instead of through their Service.
"""

import json
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from manifests import rendering
from reconcilers.api import crd
from tests.manifests.clusters import HOME, Cluster, write_manifests
from tests.manifests.guide import list_typed_lines, type_line
from tests.manifests.test_helm_hooks import play_kubelet
from tests.manifests.test_running import (
    HOOKS,
    choose_free_port,
    run_controller,
    wait_until_webhooks_reject,
)
from tests.reconcilers.cli.commands import RunningCommand
from tests.servers import program
from tests.yamls import read_all_yaml

DEFINITIONS = [f"crd/{kind.crd_name}" for kind in crd.KINDS]
Step = Callable[[], Coroutine[Any, Any, None]]


def require_guide_tools(cluster: Cluster) -> None:
    """Skip the test if the cluster is not real, or if helm or jq is missing."""
    cluster.require_real("the guide is for real clusters")
    program("helm")
    if shutil.which("jq") is None:
        pytest.skip("no jq on this machine; lines of the guide need it")


class Operator:
    """Types pages of the guide, with the steps that a page leaves to the person or the cluster.

    Args:
        cluster: the cluster that is operated.
        desk: the folder in which the lines run and write files.
    """

    def __init__(self, cluster: Cluster, desk: Path) -> None:
        self.cluster = cluster
        self.desk = desk
        self.port = choose_free_port()
        self.documents = list(read_all_yaml(rendering.INSTALL.read_text()))
        self.steps_before: dict[str, Step] = {}
        """Steps by the beginning of a line: each runs once, before the first line that has it."""
        self._rejected_install = ""
        """The line that Helm rejected because other manifests installed the objects."""

    async def type_page(self, page: str) -> None:
        """Type all lines of a page, with the steps that belong between them."""
        for line in list_typed_lines(page):
            for start in [
                beginning for beginning in self.steps_before if line.startswith(beginning)
            ]:
                await self.steps_before.pop(start)()
            if line.startswith("helm test"):
                await self._type_helm_test(line)
            elif line.startswith("helm upgrade --install"):
                await self._type_rejected_install(line)
            elif (
                line.startswith("kubectl -n butler-system delete deployment")
                and self._rejected_install
            ):
                await type_line(self.cluster, self.desk, line)
                await type_line(
                    self.cluster, self.desk, f"{self._rejected_install} --take-ownership"
                )
                self._rejected_install = ""
            elif line.startswith(("helm upgrade", "helm rollback")):
                await self.type_release(line)
            else:
                await type_line(self.cluster, self.desk, line)

    async def _type_rejected_install(self, line: str) -> None:
        """Type the line that installs by Helm; Helm rejects it, as its objects exist already."""
        with pytest.raises(AssertionError, match="invalid ownership metadata"):
            await type_line(self.cluster, self.desk, line)
        self._rejected_install = line

    async def type_release(self, line: str) -> None:
        """Type a line by which Helm writes the webhooks; restore Helm's version of them before."""
        await self._write_webhook_targets(local=False)
        await type_line(self.cluster, self.desk, line)
        await self._write_webhook_targets(local=True)

    async def _type_helm_test(self, line: str) -> None:
        """Type `helm test`, and run its pod as a kubelet would."""
        async with anyio.create_task_group() as group:
            group.start_soon(type_line, self.cluster, self.desk, line)
            await play_kubelet(self.cluster)

    async def _write_webhook_targets(self, *, local: bool) -> None:
        """Point the webhooks at a port of this machine if `local`, or at their Service."""
        get = ("get", HOOKS, "butler-ipam", "--ignore-not-found", "-o", "json")
        document = json.loads(await self.cluster.kubectl(*get) or '{"webhooks": []}')
        for webhook in document["webhooks"]:
            config = webhook["clientConfig"]
            path = config.pop("service", None) or {"path": f"/{config['url'].rpartition('/')[2]}"}
            config.pop("url", None)
            if local:
                config["url"] = f"https://127.0.0.1:{self.port}{path['path']}"
            else:
                service = {"name": "butler-ipam-webhook", "namespace": HOME, "port": 443}
                config["service"] = {**service, "path": path["path"]}
        if document["webhooks"]:
            await self.cluster.kubectl("replace", "-f", "-", stdin=write_manifests(document))

    async def wait_until_established(self) -> None:
        """Wait until our definitions are established."""
        wait = ("wait", "--for=condition=Established", "--timeout=60s")
        await self.cluster.kubectl(*wait, *DEFINITIONS)

    @asynccontextmanager
    async def run_controller(self, *flags: str) -> AsyncIterator[RunningCommand]:
        """Run the controller as in its pod, with further flags, and wait for its webhooks."""
        await self.wait_until_established()
        async with run_controller(self.cluster, self.documents, self.port, *flags) as running:
            await self.redirect_webhooks()
            yield running

    async def redirect_webhooks(self) -> None:
        """Point the webhooks at a port of this machine, and wait until they are called."""
        await self._write_webhook_targets(local=True)
        await wait_until_webhooks_reject(self.cluster)
