"""A person who types the operator's guide, and what the cluster does meanwhile.

No node runs pods here. The controller is a process of this machine, started under the account that
was installed, when a person would wait for the pods; webhooks are called at an address of its own
instead of by their Service.
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
from tests.manifests.guide import lines, type_line
from tests.manifests.test_helm_hooks import play_kubelet
from tests.manifests.test_running import HOOKS, choose_free_port, controller, webhooks_refuse
from tests.reconcilers.cli.commands import Running
from tests.servers import program
from tests.yamls import read_all_yaml

DEFINITIONS = [f"crd/{kind.crd_name}" for kind in crd.KINDS]
Step = Callable[[], Coroutine[Any, Any, None]]


def needs(cluster: Cluster) -> None:
    """Skip where the guide cannot be typed."""
    cluster.require_real("the guide is for real clusters")
    program("helm")
    if shutil.which("jq") is None:
        pytest.skip("no jq on this machine; lines of the guide need it")


class Operator:
    """Types at a desk, and does what a person or the cluster would do between the lines.

    Args:
        cluster: the cluster that is operated.
        desk: the folder where files are written.
    """

    def __init__(self, cluster: Cluster, desk: Path) -> None:
        self.cluster = cluster
        self.desk = desk
        self.port = choose_free_port()
        self.documents = list(read_all_yaml(rendering.INSTALL.read_text()))
        self.before: dict[str, Step] = {}
        """What is done before the first line that begins so."""
        self._refused = ""

    async def types(self, page: str) -> None:
        """Type a page."""
        for line in lines(page):
            for start in [beginning for beginning in self.before if line.startswith(beginning)]:
                await self.before.pop(start)()
            if line.startswith("helm test"):
                await self._typed_with_a_kubelet(line)
            elif line.startswith("helm upgrade --install"):
                await self._takes_over(line)
            elif line.startswith("kubectl -n butler-system delete deployment") and self._refused:
                await type_line(self.cluster, self.desk, line)
                await type_line(self.cluster, self.desk, f"{self._refused} --take-ownership")
                self._refused = ""
            elif line.startswith(("helm upgrade", "helm rollback")):
                await self.releases(line)
            else:
                await type_line(self.cluster, self.desk, line)

    async def _takes_over(self, line: str) -> None:
        """Type the line that installs by Helm where other ways installed already."""
        with pytest.raises(AssertionError, match="invalid ownership metadata"):
            await type_line(self.cluster, self.desk, line)
        self._refused = line

    async def releases(self, line: str) -> None:
        """Type a line by which Helm writes the webhooks, which have to be as it left them."""
        await self._have_webhooks_called(here=False)
        await type_line(self.cluster, self.desk, line)
        await self._have_webhooks_called(here=True)

    async def _typed_with_a_kubelet(self, line: str) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(type_line, self.cluster, self.desk, line)
            await play_kubelet(self.cluster)

    async def _have_webhooks_called(self, *, here: bool) -> None:
        """Have our webhooks called at this machine, where no Service leads, or by the Service."""
        get = ("get", HOOKS, "butler-ipam", "--ignore-not-found", "-o", "json")
        document = json.loads(await self.cluster.kubectl(*get) or '{"webhooks": []}')
        for webhook in document["webhooks"]:
            config = webhook["clientConfig"]
            path = config.pop("service", None) or {"path": f"/{config['url'].rpartition('/')[2]}"}
            config.pop("url", None)
            if here:
                config["url"] = f"https://127.0.0.1:{self.port}{path['path']}"
            else:
                service = {"name": "butler-ipam-webhook", "namespace": HOME, "port": 443}
                config["service"] = {**service, "path": path["path"]}
        if document["webhooks"]:
            await self.cluster.kubectl("replace", "-f", "-", stdin=write_manifests(document))

    async def wait_until_established(self) -> None:
        """Wait until the kinds are served."""
        wait = ("wait", "--for=condition=Established", "--timeout=60s")
        await self.cluster.kubectl(*wait, *DEFINITIONS)

    @asynccontextmanager
    async def controller(self, *flags: str) -> AsyncIterator[Running]:
        """Run the controller as its pod would be, with more flags."""
        await self.wait_until_established()
        async with controller(self.cluster, self.documents, self.port, *flags) as running:
            await self.webhooks_work()
            yield running

    async def webhooks_work(self) -> None:
        """Have the webhooks called here, and wait until they are."""
        await self._have_webhooks_called(here=True)
        await webhooks_refuse(self.cluster)
