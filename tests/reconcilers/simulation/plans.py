"""What is thrown at the replicas: the plan of a run, and the plans that the switches use."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Plan:
    """What is thrown at the replicas."""

    replicas: int = 2
    steps: int = 300
    disturbances: float = 0.05
    """How often something is edited, wiped or re-created, of all steps."""
    patience: float = 2.0
    """Seconds before a replica completes the promises of others; only economy, never safety."""
    reading: float = 0.5
    """How often a cache reads on before a replica works."""
    users: float = 0.05
    """How often a request is made or deleted, of all steps."""
    lateness: float = 0.06
    """How often a sender gives up on a request that runs later."""
    pauses: tuple[int, ...] = (50, 800, 3000)
    """How many milliseconds pass between two steps, now and then."""
    others: float = 0.25
    """How many of the requests are for the other, smaller pool."""
    lost: bool = True
    stale: bool = True
    resets: bool = True
    touches: bool = True
    pool_cycles: bool = True
    wipes: bool = True
    force: bool = False
    """Whether requests also vanish with the finalizer on them."""
    restores: bool = True
    """Whether a pool comes back from a backup of another history."""
    calm: bool = True
    shards: int = 0
    """In how many parts the pools are shared out; 0: every replica works on all of them."""
    moves: float = 0.04
    """How often a shard moves, of all steps."""
    refusals: float = 0.0
    """How often the server begins or stops to refuse the writes of one request, of all steps."""
    lasting_refusals: bool = False
    """Whether the refusals outlast the storm by some resyncs, in which writes are counted."""
    switches: float = 0.0
    """How often the integration is switched off or on again, of all steps: each process restarts
    with the new flag, one sooner and one later."""
    families: bool = False
    """Whether the larger pool has a second family, or gets one, and requests ask for either."""


SWITCHED = Plan(
    steps=600,
    switches=0.006,
    users=0.08,
    disturbances=0.03,
    pauses=(50, 3000, 20_000, 61_000),
    wipes=False,
)
"""The integration goes and comes back. A pool that loses its journal meanwhile is left out: the
journal alone tells a process without the integration that others hold addresses, and the
documentation says to remove it only once none is held."""
SWITCHED_BESIDE_OTHERS = replace(SWITCHED, stale=False)
"""The integration goes and comes back, and another controller serves its kinds meanwhile.
A process begins with the newest lists, as the informers of each integration do."""
STEADILY_SWITCHED = replace(SWITCHED, resets=False, pool_cycles=False, restores=False, others=0.0)
"""The integration goes and comes back, and little else happens."""
QUIET = Plan(
    calm=False, resets=False, touches=False, pool_cycles=False, wipes=False, restores=False
)
"""Nothing is edited, wiped or re-created, and nothing is checked after the storm."""
SHARP = replace(QUIET, users=0.12, lateness=0.25, reading=0.3, patience=0.0, others=0.0)
"""Few kinds of trouble, but much of it: senders that give up, caches that lag, many requests."""
LAGGING = replace(QUIET, replicas=3, steps=400, reading=0.2, patience=0.0, others=0.0)
"""Three replicas whose caches lag far behind."""
LONG = replace(LAGGING, steps=600)
"""For what needs a promise that is settled and dropped while another replica lags."""
EDITED = replace(SHARP, touches=True, resets=True)
CYCLED = replace(SHARP, pool_cycles=True)
FORCED = Plan(force=True)
RESTING = Plan(others=0.6, pool_cycles=False)
"""Most claims are of the smaller pool, whose addresses come and go the fastest."""
