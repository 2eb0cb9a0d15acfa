"""The headings of `run --help`, in their order."""

from collections.abc import Sequence

CLUSTER = "Cluster"
LEADER_ELECTION = "Leader election and shards"
METRICS = "Metrics and probes"
PAGE = "Page"
WEBHOOKS = "Webhooks"
LOGS = "Logs"
PROCESS = "Process"
INTEGRATIONS = "Integrations"
POOLS = "Pools"
TENANTS = "Tenants"
ELASTIC = "Growth and shrinking of elastic tenants"
BALANCERS = "Load balancers in tenants"
ORPHANS = "Orphaned allocations"
INTERVALS = "Intervals"

ORDER: Sequence[str] = (
    CLUSTER,
    LEADER_ELECTION,
    METRICS,
    PAGE,
    WEBHOOKS,
    LOGS,
    PROCESS,
    INTEGRATIONS,
    POOLS,
    TENANTS,
    ELASTIC,
    BALANCERS,
    ORPHANS,
    INTERVALS,
)
