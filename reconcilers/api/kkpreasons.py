"""What KKP's kinds are told by the integration with KKP: reasons, and what each says."""

from collections.abc import Mapping

from reconcilers.api.words import Condition, Event, Words

CONDITION = "IPAMControllerReconciledSuccessfully"
TROUBLE = {
    "PoolExhausted": "the pool has not enough free addresses in this datacenter; the oldest"
    " cluster gets the next ones",
    "InvalidPool": "the pool's settings for this datacenter cannot be served; the others are",
    "InvalidAllocation": "addresses of the allocation cannot be read",
    "OutOfPool": "addresses of the allocation are excluded, or not in the pool",
    "Overlapping": "addresses are also held, or handed out, by another, which is named",
    "ReconcilingError": "the allocation could not be made",
}
CLUSTER = {
    "Allocated": "True: it has its addresses of the pools that the message names",
    "NoPool": "True: no pool names its datacenter",
    **{reason: f"False: {text}" for reason, text in TROUBLE.items()},
    "Overlapping": f"False: {TROUBLE['Overlapping']}; True: the pools do, and the cluster has its"
    " addresses",
}


def _warnings(*reasons: str) -> tuple[Event, ...]:
    return tuple(Event("Warning", reason, TROUBLE[reason]) for reason in reasons)


KUBERMATIC: Mapping[str, Words] = {
    "Cluster": Words(
        conditions=(Condition(CONDITION, "it has its addresses of all pools", CLUSTER),),
        events=(Event("Warning", "ReconcilingError", "it lacks addresses; the note says why"),),
    ),
    "IPAMPool": Words(
        conditions=(), events=_warnings("PoolExhausted", "InvalidPool", "Overlapping")
    ),
    "IPAMAllocation": Words(
        conditions=(), events=_warnings("InvalidAllocation", "OutOfPool", "Overlapping")
    ),
}
"""The kinds of KKP that something is said of."""
