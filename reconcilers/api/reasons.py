"""What each reason of a condition or an event says, for API.md.

Here are those that several conditions share, or that the kinds of other projects are told;
`vocabulary.py` puts them to the kinds, beside the reasons that only one condition has.
"""

from collections.abc import Mapping

from reconcilers.api.words import ConditionWords, EventWords, Words

# Of the room in pools.

TIER_REASONS = {
    "UtilizationAboveThreshold": "True: utilization is at or above the threshold",
    "UtilizationBelowThreshold": "False: utilization is below the threshold",
    "NoCapacity": "False: the pool has no allocatable address, or its spec is wrong",
}
UNMET = {
    "PoolExhausted": "False: no pool of the ProviderConfig has that many addresses in a row",
    "PinnedRangeConflict": "False: a pinned range touches one that is held or reserved",
    "RangeInUse": "False: the status shows a range of which another request has addresses, as a"
    " restore can create it; the message names both",
    "OutOfRange": "False: a pinned range lies outside what the pool hands out",
    "InvalidRequest": "False: the request can never be served",
    "PoolNotDualStack": "False: both families are required, and the pool has one",
    "FamilyNotConfigured": "False: a family is named that the pool does not have",
}

# Of tenants.

PASSING_REASONS = {"Growing", "Shrinking", "Reconciling", "Behind", "MetalLBInstalling"}
"""Those of conditions that turn by themselves within moments."""
NO_WAY_IN = {
    "KubeconfigMissing": "False: there is no kubeconfig Secret yet; the message says where one"
    " was looked for",
    "KubeconfigRefused": "False: the kubeconfig has a setting that is not allowed, or cannot be"
    " parsed",
    "TenantUnreachable": "False: the tenant's API server does not answer; retried with growing"
    " delays",
    "TenantWebhookFailed": "False: an admission or conversion webhook in the tenant does not"
    " answer, MetalLB's own for example; tried again every few seconds",
    "TenantRefused": "False: the tenant's API server refuses the request",
    "Unauthorized": "False: the tenant's API server rejects the credentials; the Secret is read"
    " again",
    "TenantIsManagementCluster": "False: the kubeconfig leads to the management cluster itself,"
    " where nothing is written or deleted",
    "TenantShared": "False: another TenantCluster leads to the same cluster and goes first; the"
    " message names it",
    "PoolMadeByOthers": "False: MetalLB's default-pool there was not made by us, so it is left as"
    " it is",
    "HoldersUnknown": "False: MetalLB's default-pool there names no owner, and an IPAllocation"
    " that may hold its addresses cannot be read, so it is left as it is",
    "MetalLBNotInstalled": "False: the tenant does not serve metallb.io",
    "MetalLBInstalling": "False: MetalLB's bundle is being applied",
    "MetalLBBundleInvalid": "False: the ConfigMap that --metallb-bundle names holds no bundle",
    "MetalLBInstallFailed": "False: the tenant refuses an object of the bundle",
    "CiliumNotInstalled": "False: the tenant does not serve CiliumLoadBalancerIPPool",
    "LoadBalancerChanging": "False: ranges are still in the load balancer that the spec named"
    " before, and Services have no addresses until they are out; the message says what it waits"
    " for",
    "LoadBalancerNotSupported": "False: this release does not know the provider in"
    " spec.addons.loadBalancer; nothing is written there and no range is released",
    "Behind": "False, for a moment: another replica wrote a newer state than this one has read",
}
"""Why nothing can be written there."""

BALANCER = {
    "Ready": "True: the message has the ranges",
    **NO_WAY_IN,
    "MetalLBNotRunning": "False: MetalLB (0.15 or newer) has not read the pool: it does not run,"
    " or cannot use its configuration",
    "CiliumNotRunning": "False: Cilium's operator has not acknowledged a pool: it does not run, or"
    " LB-IPAM is off",
    "CiliumPoolConflict": "False: another CiliumLoadBalancerIPPool overlaps one of ours, so Cilium"
    " does not use it; the message names both",
    "Contested": "False: another writer in the tenant keeps changing what is"
    " written there; the message names it",
}
"""Of LoadBalancerReady."""

DEMAND = {
    "Ready": "True",
    "OtherClass": "True: a Service waits, and asks for another load balancer; it"
    " makes nothing grow, and this holds for the next four reasons too",
    "OtherPool": "True: a Service waits, and asks for another pool",
    "FixedAddress": "True: a Service waits, and asks for a certain address",
    "NotSelected": "True: a Service waits, and the serviceSelector of the cluster leaves it out",
    "OtherFamily": "True: a Service waits, and asks for a family there is none of",
    "Growing": "False: an allocation with more addresses was requested",
    "NotProjected": "False: the load balancer does not have the tenant's ranges yet, so the tenant"
    " does not grow; see LoadBalancerReady",
    "AddressesUnused": "False: addresses of the tenant are free and the load balancer does not"
    " assign them",
    "QuotaExceeded": "False: growing would go above maxLoadBalancerIPs",
    "PoolExhausted": "False: no pool has as many addresses in a row as are needed",
    "GrownInVain": "False: growing did not help; the tenant's own events say why",
    "SizeReached": "False: the tenant is static, and every address of it is in use",
}
"""Of LoadBalancerDemandMet."""

SIZED = {
    "Ready": "True: it holds as many addresses as spec.networking.lbPoolSize asks for",
    "Growing": "False: a further range was requested, or is once a deleted one is released",
    "Shrinking": "False: the ranges that the message names are released",
    "PoolExhausted": "False: no pool has room for the further range; the message says what each"
    " has",
    "QuotaExceeded": "False: the size is above maxLoadBalancerIPs, which applies",
    "AddressesInUse": "False: Services use or wait for addresses of every range that could be"
    " released",
    "RangeNotDivisible": "False: each range that could be released has more addresses than the"
    " surplus",
}
"""Of LoadBalancerSized."""

# Of Cluster API's claims and their pools.

CLAIM = {
    "AddressAllocated": "True: the message has the address, and its pool; it is the claim's record"
    " of what it holds",
    "PoolNotReady": "False: the pool does not exist, is being deleted, or begins to serve",
    "PoolExhausted": "False: the pool has no free address; the oldest claim gets the next one",
    "AllocationFailed": "False: an IPAddress of the claim's name is in the way, or the API server"
    " refused to store it or the claim. The message says why, and it is tried again each minute",
}
CLAIM_POOL = {
    "Ready": "True: claims are served",
    "NoCapacity": "False: everything in the pool is excluded or reserved",
    "ValidationFailed": "False: the spec cannot be read; the message says where",
    "Deleting": "False: the pool waits for its IPAddresses to be released",
    "HoldersUnknown": "False: objects that may hold its addresses cannot be read, so nothing is"
    " handed out; the message names them",
}
CLAIM_OVERLAP = {
    "PoolsOverlap": "True: the message names them, and counts what both may hand out",
    "NoOverlap": "False: the message says pools of which kinds were compared",
    "PoolsUnreadable": "Unknown: no pool that can be read overlaps; the message names the others",
}
CLAIM_POOL_KINDS = (
    "InClusterIPPool",
    "GlobalInClusterIPPool",
    "InClusterPrefixPool",
    "GlobalInClusterPrefixPool",
)

# Of the kinds of KKP.

_KKP_CONDITION = "IPAMControllerReconciledSuccessfully"
_KKP_TROUBLE = {
    "PoolExhausted": "the pool has not enough free addresses in this datacenter; the oldest"
    " cluster gets the next ones",
    "InvalidPool": "the pool's settings for this datacenter cannot be served; the others are",
    "InvalidAllocation": "addresses of the allocation cannot be read",
    "HoldersUnknown": "allocations of the pool cannot be read, so it hands out nothing; they are"
    " named",
    "OutOfPool": "addresses of the allocation are excluded, or not in the pool",
    "Overlapping": "addresses are also held, or handed out, by another, which is named",
    "ReconcilingError": "the allocation could not be made",
}
_KKP_CLUSTER = {
    "Allocated": "True: it has its addresses of the pools that the message names",
    "NoPool": "True: no pool names its datacenter",
    **{reason: f"False: {meaning}" for reason, meaning in _KKP_TROUBLE.items()},
    "OutOfPool": f"False: {_KKP_TROUBLE['OutOfPool']}; True: a range has excluded addresses,"
    " which it keeps",
    "Overlapping": f"False: {_KKP_TROUBLE['Overlapping']}; True: the pools do, and the cluster"
    " has its addresses",
}


def _warnings(*reasons: str) -> tuple[EventWords, ...]:
    return tuple(EventWords("Warning", reason, _KKP_TROUBLE[reason]) for reason in reasons)


KUBERMATIC: Mapping[str, Words] = {
    "Cluster": Words(
        conditions=(
            ConditionWords(_KKP_CONDITION, "it has its addresses of all pools", _KKP_CLUSTER),
        ),
        events=(
            EventWords("Warning", "ReconcilingError", "it lacks addresses; the note says why"),
        ),
    ),
    "IPAMPool": Words(
        conditions=(),
        events=_warnings("PoolExhausted", "InvalidPool", "Overlapping", "HoldersUnknown"),
    ),
    "IPAMAllocation": Words(
        conditions=(), events=_warnings("InvalidAllocation", "OutOfPool", "Overlapping")
    ),
}
"""The kinds of KKP that something is said of."""

# Of the kinds of vitistack.

VITISTACK: Mapping[str, Words] = {
    "NetworkNamespace": Words(
        conditions=(),
        events=(
            EventWords("Warning", "PoolExhausted", "an IPAllocation waits for a free address"),
            EventWords(
                "Warning", "InvalidRange", "its settings contradict each other; the note says how"
            ),
            EventWords(
                "Warning",
                "HoldersUnknown",
                "objects that may hold its addresses cannot be read, so nothing is handed out",
            ),
        ),
    ),
    "NetworkConfiguration": Words(
        conditions=(
            ConditionWords(
                "Ready",
                "every interface has its address",
                {
                    "Configured": "True",
                    "Reconciling": "False: addresses are waited for",
                    "Error": "False: the message says which interface lacks what",
                },
            ),
        ),
        events=(),
    ),
    "IPAllocation of vitistack": Words(
        conditions=(),
        events=(
            EventWords("Warning", "NetworkNotFound", "its NetworkNamespace does not exist"),
            EventWords(
                "Warning", "NoStaticConfiguration", "its network hands out no static addresses"
            ),
            EventWords(
                "Warning", "InvalidRange", "the settings of its network contradict each other"
            ),
            EventWords("Warning", "PoolExhausted", "its network has no free address"),
            EventWords(
                "Warning",
                "AddressUnavailable",
                "the address that it requests is taken, or not handed out by its network",
            ),
            EventWords(
                "Normal", "Expired", "its address was released: no machine used it any more"
            ),
        ),
    ),
}
"""The kinds of vitistack that something is said of."""
