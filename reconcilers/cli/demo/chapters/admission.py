"""What is refused before it is stored, by the CRDs' rules and by the webhooks, and what is not."""

from typing import Any

from controller.meta import Key
from reconcilers.api.names import DEFAULT_NAMESPACE
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, PROVIDER_CONFIG
from reconcilers.cli.demo import cast
from reconcilers.cli.demo.attempts import changing, creating, deleting, refused, warned
from reconcilers.cli.demo.cast import PINNED, PRIMARY, PROVIDER, SECONDARY, SEVERAL
from reconcilers.cli.demo.step import Step


def _at(name: str) -> Key:
    return Key(DEFAULT_NAMESPACE, name)


def _ranges(*spans: tuple[str, str]) -> dict[str, Any]:
    return {"tenantAllocation": {"ranges": [{"start": one, "end": end} for one, end in spans]}}


def refusals() -> list[Step]:
    """Return the steps in which somebody is stopped, or warned."""
    return [
        refused(
            "Nobody takes away what is handed out",
            changing(
                "ranges that leave allocations out",
                NETWORK_POOL,
                _at(PRIMARY),
                _ranges(("10.40.0.30", "10.40.0.40")),
                "IPAllocation",
            ),
            changing(
                "a reservation over allocations",
                NETWORK_POOL,
                _at(SECONDARY),
                {"reserved": [{"cidr": "10.41.0.200/30"}]},
                f'IPAllocation "{PINNED}"',
            ),
            changing(
                "a CIDR that is narrowed",
                NETWORK_POOL,
                _at(SECONDARY),
                {"cidr": "10.41.0.0/25"},
                "cidr",
            ),
            deleting(
                "a pool is deleted whose addresses are in use",
                NETWORK_POOL,
                _at(PRIMARY),
                "is still in phase Allocated",
            ),
        ),
        refused(
            "Nobody asks for what cannot be",
            changing(
                "an allocation that is made larger",
                IP_ALLOCATION,
                _at(PINNED),
                {"pinnedRange": {"startAddress": "10.41.0.200", "endAddress": "10.41.0.210"}},
                "spec",
            ),
            creating(
                "more addresses in a row than the pool has in any of its ranges",
                IP_ALLOCATION,
                cast.allocation("too-large", SEVERAL, count=20),
                "spec.count",
            ),
            creating(
                "a reservation across a range's end",
                NETWORK_POOL,
                cast.pool("typo", "10.45.0.0/24", [("10.45.0.0", "10.45.0.9")], ["10.45.0.8/29"]),
                "straddles",
            ),
            changing(
                "a provider without pools",
                PROVIDER_CONFIG,
                _at(PROVIDER),
                {"network": {"poolRefs": []}},
                "poolRef",
            ),
        ),
        warned(
            "What is odd, but possible, is let through with a warning",
            creating(
                "a CIDR with host bits, all of which another pool has too",
                NETWORK_POOL,
                cast.pool("odd", "10.41.0.5/24", []),
                "host bits",
            ),
            creating(
                "two reservations that overlap",
                NETWORK_POOL,
                cast.pool("odd", "10.45.0.0/24", [], ["10.45.0.0/28", "10.45.0.8/29"]),
                "overlap",
            ),
            creating(
                "a request of a pool that does not exist",
                IP_ALLOCATION,
                cast.allocation("early", "nowhere", count=1),
                "does not exist",
            ),
        ),
    ]
