"""An admission webhook that drops the journal of a pool makes no controller write without end."""

from typing import Any

import pytest

from controller.testing.api import FakeApi
from reconcilers.promises.journal import ANNOTATION
from tests.reconcilers.integrations.clusterapi.test_restoring import (
    CLAIMS,
    addresses,
    restore_claims,
    served,
)

Patch = pytest.MonkeyPatch


def drop_journals(patch: Patch) -> None:
    """Let the server drop the annotation of every object that is written."""
    store = FakeApi._store

    def without_journal(self: FakeApi, target: Any, old: Any, new: Any, *, dry: bool) -> Any:
        metadata = new["metadata"]
        kept = {k: v for k, v in metadata.get("annotations", {}).items() if k != ANNOTATION}
        return store(
            self, target, old, {**new, "metadata": {**metadata, "annotations": kept}}, dry=dry
        )

    patch.setattr(FakeApi, "_store", without_journal)


async def test_claims_are_not_written_over_and_over_while_the_journal_is_dropped() -> None:
    with Patch.context() as patch:
        drop_journals(patch)
        async with served() as home:
            await restore_claims(home)
            await home.pass_by(30)
            of_claims = [
                request
                for request in home.api.requests
                if request.resource == CLAIMS.full_name and request.method == "PATCH"
            ]
            assert len(of_claims) < 20
            assert await addresses(home) == {}
            patch.undo()
            await home.pass_by(100)
            assert len(await addresses(home)) == 4


async def test_nothing_is_given_while_the_server_keeps_an_older_journal() -> None:
    async with served() as home:
        with Patch.context() as patch:
            store = FakeApi._store

            def with_old_journal(
                self: FakeApi, target: Any, old: Any, new: Any, *, dry: bool
            ) -> Any:
                older = old["metadata"].get("annotations", {}).get(ANNOTATION)
                if older is not None:
                    annotations = {**new["metadata"]["annotations"], ANNOTATION: older}
                    new = {**new, "metadata": {**new["metadata"], "annotations": annotations}}
                return store(self, target, old, new, dry=dry)

            patch.setattr(FakeApi, "_store", with_old_journal)
            await restore_claims(home)
            await home.pass_by(60)
            assert await addresses(home) == {}
