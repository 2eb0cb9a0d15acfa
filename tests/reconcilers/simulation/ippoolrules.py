"""Switches for the rules by which no address of an IPPool is given twice.

Each function switches one rule off. Its docstring says what the code does without the rule.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from controller.meta import Key
from reconcilers.integrations.core import claimkind, claimreading
from reconcilers.integrations.metal3 import pools
from reconcilers.integrations.metal3.caches import EitherCaches, IPPoolClaimCaches
from reconcilers.integrations.metal3.claimformats import ClaimFormat
from reconcilers.integrations.metal3.entries import EntrySpace
from reconcilers.integrations.metal3.taking import TakenAddresses
from reconcilers.promises.holdings import Facts
from tests.reconcilers.simulation.journalrules import (
    forget_promises_in,
    ignore_promises_in,
    patch_field_at_any_version,
)
from tests.reconcilers.simulation.model import METAL3_CLAIMS, METAL3_POOLS

Patch = pytest.MonkeyPatch


def ignore_promises(mp: Patch) -> None:
    """Let promised addresses be chosen again."""
    ignore_promises_in(mp, claimkind)
    mp.setattr(pools, "TakenAddresses", lambda _: TakenAddresses(()))


def write_pools_at_any_version(mp: Patch) -> None:
    """Write a journal whatever the pool has become meanwhile."""
    patch_field_at_any_version(mp, METAL3_POOLS, "metadata")


def write_requests_at_any_version(mp: Patch) -> None:
    """Write the address of a claim whatever the claim has become since the promise."""
    patch_field_at_any_version(mp, METAL3_CLAIMS, "status")


def forget_promises_at_once(mp: Patch) -> None:
    """Drop all promises at the next write of the journal."""
    forget_promises_in(mp, claimreading)


def adopt_addresses_of_other_claims(mp: Patch) -> None:
    """Adopt an existing IPAddress of the promised name, whichever claim it names."""
    mp.setattr(ClaimFormat, "is_address_of_claim", lambda self, address, claim: True)


def ignore_addresses_of_other_kind(mp: Patch) -> None:
    """Treat the addresses of IPAddressClaims as free."""
    compute_facts = IPPoolClaimCaches.compute_facts

    def find_facts_of_one_kind(
        self: EitherCaches, pool: Key, space: EntrySpace, claim: Any, addresses: Sequence[Any]
    ) -> Facts | None:
        facts = compute_facts(self, pool, space=space, claim=claim, addresses=addresses)
        is_other = not self.claim_kind.endswith("metal3.io")
        return facts._replace(ranges=()) if facts is not None and is_other else facts

    mp.setattr(IPPoolClaimCaches, "compute_facts", find_facts_of_one_kind)
