"""The addresses of claims over time, as the watches of both kinds of claims report them.

Revisions of one server count the writes of all kinds, so histories of both kinds are compared by
them: two claims never have one address at one revision, and no claim ever has a second address.
"""

from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from itertools import combinations, groupby
from math import inf
from operator import attrgetter
from typing import Any

import anyio

from tests.contract.metal3.lab import CLAIM_KINDS, Metal3Lab, get_address_name
from tests.following import follow_writes
from tests.polling import make_awaitable, until

Body = Mapping[str, Any]


@dataclass
class Tenure:
    """The time for which a claim has an address.

    Args:
        claim: its kind, name and uid.
        address: the name of its IPAddress, which contains the address.
        begin: the revision at which its status named the IPAddress.
        end: the revision at which it was gone.
    """

    claim: str
    address: str
    begin: int
    end: float = inf


class ClaimHistory:
    """Follows claims of a namespace; finds addresses of two claims and claims of two addresses."""

    def __init__(self) -> None:
        self._tenures: dict[str, Tenure] = {}
        self._seen: set[tuple[str, str]] = set()
        self.renumbered: list[str] = []
        """Claims whose status named one IPAddress and then another, or none."""

    async def follow(self, lab: Metal3Lab) -> None:
        """Note what happens to claims of both kinds until cancelled."""
        async with anyio.create_task_group() as group:
            for kind in CLAIM_KINDS:
                group.start_soon(self._follow, lab, kind)

    async def _follow(self, lab: Metal3Lab, kind: str) -> None:
        """Note what happens to claims of one kind until cancelled."""
        async with aclosing(follow_writes(lab.admin, lab.build_path(kind))) as events:
            async for event, body in events:
                if event != "BOOKMARK":
                    self.note(kind, event, body)

    def note(self, kind: str, event: str, body: Body) -> None:
        """Note an event of a watch: ADDED, MODIFIED or DELETED."""
        meta = body["metadata"]
        claim, revision = f"{kind} {meta['name']} {meta['uid']}", int(meta["resourceVersion"])
        self._seen.add((kind, meta["name"]))
        address = get_address_name(dict(body))
        tenure = self._tenures.get(claim)
        if tenure is None and address and event != "DELETED":
            self._tenures[claim] = Tenure(claim, address, revision)
        if tenure is None:
            return
        if address != tenure.address:
            self.renumbered.append(f"{claim} had {tenure.address}, then {address or 'nothing'}")
        if event == "DELETED":
            tenure.end = revision

    async def wait_until_seen(self, kind: str, name: str) -> None:
        """Wait until a claim was seen; then all earlier claims of its kind were seen, too."""
        await until(make_awaitable(lambda: (kind, name) in self._seen), bool)

    def list_findings(self) -> list[str]:
        """Return the violations, as sentences."""
        return [*self.renumbered, *self._list_shared()]

    def _list_shared(self) -> Iterator[str]:
        """Yield a sentence for each address that two claims had at the same revision."""
        tenures = sorted(self._tenures.values(), key=attrgetter("address", "begin"))
        for address, group in groupby(tenures, key=attrgetter("address")):
            for first, other in combinations(group, 2):
                if other.begin < first.end:
                    yield f"{address} of {first.claim} was given to {other.claim}, too"
