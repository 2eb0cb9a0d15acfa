"""An installation with the components `shards` and `ui` has the permissions that it needs."""

import signal
from pathlib import Path

import pytest

from reconcilers.api import crd
from tests.manifests.clusters import HOME, Cluster, write_manifests
from tests.manifests.guide import list_typed_lines, type_line
from tests.manifests.overlays import write_overlay
from tests.manifests.page import create_token, read_updates
from tests.manifests.test_running import (
    ACCOUNT,
    SAMPLES,
    choose_free_port,
    load_redirected,
    read_rejection,
    run_controller,
    wait_until_allocated,
    wait_until_webhooks_reject,
)
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHARDS = {f"butler-ipam-4-{number}" for number in range(4)}
FLAGS = ("--leader-elect-retry-period=200ms", "--ui-bind-address=127.0.0.1:0")


async def read_lease_holders(cluster: Cluster) -> dict[str, str]:
    """Return the identity of each Lease's holder by the Lease's name; empty if it has none."""
    leases = await cluster.read(f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases")
    return {
        lease["metadata"]["name"]: lease["spec"].get("holderIdentity", "")
        for lease in leases["items"]
    }


async def test_a_replica_holds_all_shards_with_the_permissions_of_the_component(
    cluster: Cluster, tmp_path: Path
) -> None:
    port = choose_free_port()
    overlay = write_overlay(tmp_path / "tree", "shards", "ui")
    documents = load_redirected(await cluster.kubectl("kustomize", overlay), port)
    await cluster.apply("-f", "-", stdin=write_manifests(*documents))
    await cluster.wait_until_established(*(kind.crd_name for kind in crd.KINDS))
    async with run_controller(cluster, documents, port, *FLAGS) as first:
        await wait_until_webhooks_reject(cluster)
        lease_holders = await until(
            lambda: read_lease_holders(cluster),
            lambda holders: all(holders.get(name) for name in SHARDS),
        )
        members = set(lease_holders) - SHARDS
        assert len(members) == 1
        assert all(name.startswith("butler-ipam-4-member-") for name in members)
        assert await read_rejection(cluster, "apply", "--server-side", "-f", SAMPLES) == ""
        assert await wait_until_allocated(cluster)
        for line in list_typed_lines("sharding-and-sizing", "Share the work among replicas"):
            assert "butler-ipam-4-0" in await type_line(cluster, tmp_path, line)
        ui_address = await first.wait_for_output(r"ui-address\W+(127\.0\.0\.1:[0-9]+)")
        await check_page_access(cluster, f"https://{ui_address[1]}", tmp_path)
        assert await first.stop(signal.SIGTERM) == 0
    # The replica deleted its own member Lease at its end, and no request of it was forbidden.
    remaining = await read_lease_holders(cluster)
    assert set(remaining) == SHARDS
    assert set(remaining.values()) == {""}
    assert ACCOUNT not in first.stderr, "an API server that forbids a request names the account"


async def check_page_access(cluster: Cluster, url: str, desk: Path) -> None:
    """Check that only the ServiceAccount that the guide's line binds can read the page.

    Args:
        cluster: the cluster with the controllers.
        url: the base URL of the page.
        desk: the folder in which the guide's line runs.
    """
    tokens = [await create_token(cluster, name) for name in ("viewer", "other")]
    [bind] = [line for line in list_typed_lines("page") if "clusterrolebinding" in line]
    await type_line(cluster, desk, bind)
    status, sent = await read_updates(url, tokens[0])
    assert status == 200
    assert any(pool_name.startswith("butler-system/lab-pool ") for pool_name in sent[0]["order"])
    [events, *_] = [update["events"] for update in sent if update.get("events")]
    assert {event["about"].partition(" ")[0] for event in events} & {"NetworkPool", "IPAllocation"}
    assert (await read_updates(url, tokens[1]))[0] == 403
