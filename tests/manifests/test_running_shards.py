"""What was installed with the components `shards` and `ui` runs, and has the rights it needs."""

import signal
from pathlib import Path

import pytest

from reconcilers.api import crd
from tests.manifests.clusters import HOME, Cluster, write_manifests
from tests.manifests.guide import lines, type_line
from tests.manifests.overlays import with_components
from tests.manifests.page import token_of, updates
from tests.manifests.test_running import (
    ACCOUNT,
    SAMPLES,
    called_here,
    choose_free_port,
    controller,
    refusal,
    wait_until_allocated,
    webhooks_refuse,
)
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHARDS = {f"butler-ipam-4-{number}" for number in range(4)}
SOON = ("--leader-elect-retry-period=200ms", "--ui-bind-address=127.0.0.1:0")


async def holders(cluster: Cluster) -> dict[str, str]:
    """Return the holder's identity of each Lease, empty for none."""
    leases = await cluster.read(f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases")
    return {
        lease["metadata"]["name"]: lease["spec"].get("holderIdentity", "")
        for lease in leases["items"]
    }


async def test_replicas_share_the_work_with_the_rights_that_the_component_gives(
    cluster: Cluster, tmp_path: Path
) -> None:
    port = choose_free_port()
    overlay = with_components(tmp_path / "tree", "shards", "ui")
    documents = called_here(await cluster.kubectl("kustomize", overlay), port)
    await cluster.apply("-f", "-", stdin=write_manifests(*documents))
    await cluster.wait_until_established(*(kind.crd_name for kind in crd.KINDS))
    async with controller(cluster, documents, port, *SOON) as first:
        await webhooks_refuse(cluster)
        lease_holders = await until(
            lambda: holders(cluster), lambda seen: all(seen.get(name) for name in SHARDS)
        )
        members = set(lease_holders) - SHARDS
        assert len(members) == 1
        assert all(name.startswith("butler-ipam-4-member-") for name in members)
        assert await refusal(cluster, "apply", "--server-side", "-f", SAMPLES) == ""
        assert await wait_until_allocated(cluster)
        for line in lines("sharding-and-sizing", "Share the work among replicas"):
            assert "butler-ipam-4-0" in await type_line(cluster, tmp_path, line)
        ui_address = await first.until(r"ui-address\W+(127\.0\.0\.1:[0-9]+)")
        await the_page_is_read(cluster, f"https://{ui_address[1]}", tmp_path)
        assert await first.stop(signal.SIGTERM) == 0
    # It could delete its own Lease when it ended, and asked for nothing that it has no right to.
    remaining = await holders(cluster)
    assert set(remaining) == SHARDS
    assert set(remaining.values()) == {""}
    assert ACCOUNT not in first.complained, (
        "an API server that forbids something names the account"
    )


async def the_page_is_read(cluster: Cluster, url: str, desk: Path) -> None:
    """See that the page and its events are for whom the guide's line binds, and for no other."""
    tokens = [await token_of(cluster, name) for name in ("viewer", "other")]
    [bind] = [line for line in lines("page") if "clusterrolebinding" in line]
    await type_line(cluster, desk, bind)
    status, sent = await updates(url, tokens[0])
    assert status == 200
    assert any(pool_name.startswith("butler-system/lab-pool ") for pool_name in sent[0]["order"])
    [events, *_] = [update["events"] for update in sent if update.get("events")]
    assert {event["about"].partition(" ")[0] for event in events} & {"NetworkPool", "IPAllocation"}
    assert (await updates(url, tokens[1]))[0] == 403
