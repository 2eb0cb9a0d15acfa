"""An admission webhook that drops the journal of a pool makes no controller write without end."""

from typing import Any

from controller.testing import Request
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.networkpool.statusjournal import JOURNAL_FIELDS
from tests.reconcilers.integrations.clusterapi.test_restoring import (
    CLAIMS,
    POOL_REF,
    read_addresses,
    restore_claims,
    serve_pool,
)
from tests.reconcilers.test_sharing import NAMESPACE


def drop_journal(request: Request, old: Any, new: Any) -> Any:
    """Return a pool without its journal, as a webhook may; called for each write of a pool."""
    status = {k: v for k, v in new.get("status", {}).items() if k not in JOURNAL_FIELDS}
    return {**new, "status": status}


def keep_older_journal(request: Request, old: Any, new: Any) -> Any:
    """Return a pool with the journal that was stored before; called for each write of a pool."""
    status = old.get("status", {}) if old else {}
    older = {k: v for k, v in status.items() if k in JOURNAL_FIELDS}
    return {**new, "status": {**new["status"], **older}} if older else new


async def test_claims_are_written_few_times_and_not_served_while_the_journal_is_dropped() -> None:
    async with serve_pool() as cluster:
        cluster.api.admit = drop_journal
        await restore_claims(cluster)
        await cluster.pass_by(30)
        claim_writes = [
            request
            for request in cluster.api.requests
            if request.resource == CLAIMS.full_name and request.method == "PATCH"
        ]
        assert len(claim_writes) < 20
        assert await read_addresses(cluster) == {}
        cluster.api.admit = None
        await cluster.pass_by(100)
        assert len(await read_addresses(cluster)) == 4


async def test_no_claim_is_served_while_a_webhook_restores_the_older_journal() -> None:
    async with serve_pool() as cluster:
        cluster.api.admit = keep_older_journal
        await restore_claims(cluster)
        await cluster.pass_by(60)
        assert await read_addresses(cluster) == {}


async def test_a_pool_is_written_once_in_a_resync_while_a_webhook_restores_the_older_journal() -> (
    None
):
    async with serve_pool() as cluster:
        cluster.api.admit = keep_older_journal
        for number in range(6):
            body = {"metadata": {"name": f"c-{number}"}, "spec": {"poolRef": POOL_REF}}
            await cluster.client.create(CLAIMS, NAMESPACE, body)
            await cluster.pass_by(5)
        journal_writes = [
            request
            for request in cluster.api.requests
            if request.resource == NETWORK_POOL.full_name
            and request.method == "PATCH"
            and "c-" in str(request.body.get("status", {}).get("assignments"))
        ]
        assert len(journal_writes) == 1
        assert await read_addresses(cluster) == {}
