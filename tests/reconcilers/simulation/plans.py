"""The plan of a run, and the plans that the switches use."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Plan:
    """How many replicas and steps a run has, and which disturbances happen how often."""

    replicas: int = 2
    steps: int = 300
    disturbances: float = 0.05
    """The share of the steps that edit, wipe or recreate an object."""
    patience: float = 2.0
    """Seconds before a replica writes addresses that another replica promised; no safety rule."""
    reading: float = 0.5
    """The probability that a cache reads on before its replica begins a pass."""
    users: float = 0.05
    """The share of the steps that create or delete a request."""
    lateness: float = 0.06
    """The probability that a sender gives up on a request, which runs later."""
    pauses: tuple[int, ...] = (50, 800, 3000)
    """The milliseconds that may pass between two steps."""
    others: float = 0.25
    """The share of the requests that name pool q."""
    lost: bool = True
    """Whether answers may be lost."""
    stale: bool = True
    """Whether a new process may begin with a list of an earlier state."""
    resets: bool = True
    """Whether people wipe the addresses that a request shows."""
    touches: bool = True
    """Whether people edit requests, so that these get another resourceVersion."""
    pool_cycles: bool = True
    """Whether the pool is deleted and created again."""
    wipes: bool = True
    """Whether the pool loses its journal."""
    force: bool = False
    """Whether requests also vanish with the finalizer on them."""
    restores: bool = True
    """Whether a pool comes back from a backup of another history."""
    calm: bool = True
    """Whether a calm follows the storm, in which everything that fits must be served."""
    shards: int = 0
    """The number of shards; 0 if every replica works on all pools."""
    moves: float = 0.04
    """The share of the steps that move a shard."""
    refusals: float = 0.0
    """The share of the steps that begin or end the refusal of writes to a request."""
    lasting_refusals: bool = False
    """Whether the refusals outlast the storm by some resyncs, in which writes are counted."""
    switches: float = 0.0
    """The share of the steps that switch the integration off or on again.

    Each process restarts with the new flag, one sooner and one later.
    """
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
