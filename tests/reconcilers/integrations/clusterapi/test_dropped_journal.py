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
    """Return an object without its journal."""
    status = {k: v for k, v in new.get("status", {}).items() if k not in JOURNAL_FIELDS}
    return {**new, "status": status}


def keep_older_journal(request: Request, old: Any, new: Any) -> Any:
    """Return an object with the journal that was stored before."""
    status = old.get("status", {}) if old else {}
    older = {k: v for k, v in status.items() if k in JOURNAL_FIELDS}
    return {**new, "status": {**new["status"], **older}} if older else new


async def test_claims_are_not_written_over_and_over_while_the_journal_is_dropped() -> None:
    async with serve_pool() as home:
        home.api.admit = drop_journal
        await restore_claims(home)
        await home.pass_by(30)
        of_claims = [
            request
            for request in home.api.requests
            if request.resource == CLAIMS.full_name and request.method == "PATCH"
        ]
        assert len(of_claims) < 20
        assert await read_addresses(home) == {}
        home.api.admit = None
        await home.pass_by(100)
        assert len(await read_addresses(home)) == 4


async def test_nothing_is_given_while_the_server_keeps_an_older_journal() -> None:
    async with serve_pool() as home:
        home.api.admit = keep_older_journal
        await restore_claims(home)
        await home.pass_by(60)
        assert await read_addresses(home) == {}


async def test_a_pool_is_written_once_in_a_resync_while_an_older_journal_is_kept() -> None:
    async with serve_pool() as home:
        home.api.admit = keep_older_journal
        for number in range(6):
            body = {"metadata": {"name": f"c-{number}"}, "spec": {"poolRef": POOL_REF}}
            await home.client.create(CLAIMS, NAMESPACE, body)
            await home.pass_by(5)
        journals = [
            request
            for request in home.api.requests
            if request.resource == NETWORK_POOL.full_name
            and request.method == "PATCH"
            and "c-" in str(request.body.get("status", {}).get("assignments"))
        ]
        assert len(journals) == 1
        assert await read_addresses(home) == {}
