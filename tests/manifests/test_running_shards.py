"""What was installed with the component `shards` runs: its account may do all that it does."""

import json
import signal
from pathlib import Path

import pytest

from reconcilers.api import crd
from tests.manifests.clusters import HOME, Cluster, written
from tests.manifests.guide import lines, typed
from tests.manifests.overlays import with_components
from tests.manifests.test_running import (
    ACCOUNT,
    SAMPLES,
    allocated,
    called_here,
    controller,
    free_port,
    refusal,
    webhooks_refuse,
)
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHARDS = {f"butler-ipam-4-{number}" for number in range(4)}
SOON = ("--leader-elect-retry-period=200ms",)


async def holders(cluster: Cluster) -> dict[str, str]:
    """Return who holds each Lease, empty if nobody does."""
    found = json.loads(await cluster.kubectl("get", "leases", "-n", HOME, "-o", "json"))
    return {
        one["metadata"]["name"]: one["spec"].get("holderIdentity", "") for one in found["items"]
    }


async def test_replicas_share_the_work_with_the_rights_that_the_component_gives(
    cluster: Cluster, tmp_path: Path
) -> None:
    port = free_port()
    overlay = with_components(tmp_path / "tree", "shards")
    documents = called_here(await cluster.kubectl("kustomize", overlay), port)
    await cluster.apply("-f", "-", stdin=written(*documents))
    definitions = [f"crd/{kind.crd_name}" for kind in crd.KINDS]
    await cluster.kubectl("wait", "--for=condition=Established", *definitions)
    async with controller(cluster, documents, port, *SOON) as first:
        await webhooks_refuse(cluster)
        held = await until(
            lambda: holders(cluster), lambda seen: all(seen.get(name) for name in SHARDS)
        )
        members = set(held) - SHARDS
        assert len(members) == 1
        assert all(name.startswith("butler-ipam-4-member-") for name in members)
        assert await refusal(cluster, "apply", "--server-side", "-f", SAMPLES) == ""
        assert await allocated(cluster)
        for line in lines("Sharing the work among replicas"):
            assert "butler-ipam-4-0" in await typed(cluster, tmp_path, line)
        assert await first.stop(signal.SIGTERM) == 0
    # It could delete its own Lease when it ended, and asked for nothing that it has no right to.
    left = await holders(cluster)
    assert set(left) == SHARDS
    assert set(left.values()) == {""}
    assert ACCOUNT not in first.complained, (
        "an API server that forbids something names the account"
    )
