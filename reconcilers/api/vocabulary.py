"""What each word means that the controllers write into the cluster.

Meanings cannot be generated, so they stand here, next to the page that they are for. Tests hold
them to the code: every reason, event, label, annotation and finalizer that it writes has an entry,
and every entry is written by it.
"""

from collections.abc import Mapping

from reconcilers.api import names
from reconcilers.api.reasons import (
    BALANCER,
    CLAIM,
    CLAIM_OVERLAP,
    CLAIM_POOL,
    CLAIM_POOL_KINDS,
    DEMAND,
    KUBERMATIC,
    NO_WAY_IN,
    SIZED,
    TIER_REASONS,
    UNMET,
    VITISTACK,
)
from reconcilers.api.words import ConditionWords, EventWords, Words

_OVERLAPPING = ConditionWords(
    "Overlapping",
    "another pool, of whatever kind, hands out the same addresses, as sites behind NAT do",
    CLAIM_OVERLAP,
)
_CLAIM_POOL = Words(
    conditions=(ConditionWords("Ready", "claims are served", CLAIM_POOL), _OVERLAPPING),
    events=(EventWords("Warning", "PoolsOverlap", "another pool begins to overlap with it"),),
)
WORDS: Mapping[str, Words] = {
    "NetworkPool": Words(
        conditions=(
            ConditionWords(
                "Ready",
                "the pool hands out ranges",
                {
                    "Ready": "True: the message counts what is available",
                    "ValidationFailed": "False: the spec contradicts itself; the message says how",
                    "HoldersUnknown": "False: what objects of other kinds hold is not known, or"
                    " cannot be read, so nothing is handed out",
                    "UnreadableAllocation": "False: what some allocation holds cannot be read, so"
                    " nothing is handed out",
                    "ForeignManager": "False: another controller writes these statuses",
                    "NamespaceNotAllowed": "False: --pool-namespaces does not name the pool's"
                    " namespace, so nothing is handed out",
                    "DefinitionOutdated": "False: the CustomResourceDefinition in force drops"
                    " what the pool has to remember, or an admission webhook or policy changes it",
                    "Deleting": "False: the pool waits for its allocations to be released",
                },
            ),
            ConditionWords(
                "Stalled",
                "nothing will change until a person acts",
                {
                    "ValidationFailed": "True: as for Ready",
                },
            ),
            ConditionWords("CapacityWarning", "70 % or more is held", TIER_REASONS),
            ConditionWords("CapacityCritical", "85 % or more is held", TIER_REASONS),
            ConditionWords("CapacityExhausted", "95 % or more is held", TIER_REASONS),
            ConditionWords(
                "Degraded",
                "enough is free for a request of default size, but not in one piece",
                {
                    "HighFragmentation": "True: the free space is in pieces",
                    "NotDegraded": "False",
                },
            ),
            _OVERLAPPING,
            ConditionWords(
                "RangesOverlap",
                "allocations or claims hold the same addresses, after an edit or a restore",
                {"AllocationsOverlap": "True: the message names them", "NoOverlap": "False"},
            ),
            ConditionWords(
                "OutOfRange",
                "allocations or claims hold addresses that the spec no longer allows; they keep"
                " them",
                {"AllocationsOutOfRange": "True: the message names them", "InRange": "False"},
            ),
            ConditionWords(
                "ForeignManager",
                "another controller writes the statuses that are ours, so nothing is handed out",
                {
                    "StatusWrittenByOthers": "True: the message names it",
                    "NoForeignManager": "False: it has been silent for --pool-foreign-silence",
                },
            ),
            ConditionWords(
                "OrphanCollectionSuspended",
                "so many TenantClusters are gone at once that no allocation is collected",
                {"TooManyOrphans": "True: a person must decide", "WithinLimit": "False"},
            ),
        ),
        events=(
            EventWords(
                "Normal", "IPsAllocated", "ranges were allocated; one event can report many"
            ),
            EventWords(
                "Warning", "AllocationFailed", "a request was refused, or could not be written"
            ),
            EventWords("Warning", "PoolCapacityWarning", "70 % was reached"),
            EventWords("Warning", "PoolCapacityCritical", "85 % was reached"),
            EventWords("Warning", "PoolCapacityExhausted", "95 % was reached"),
            EventWords(
                "Normal",
                "PoolCapacityRecovered",
                "utilization fell below a threshold; the note names it",
            ),
            EventWords("Normal", "OrphanedAllocationGC", "an allocation's TenantCluster is gone"),
            EventWords("Warning", "OrphanCollectionSuspended", "see the condition"),
            EventWords("Warning", "UnreadableAllocation", "see the reason of Ready"),
            EventWords("Warning", "HoldersUnknown", "objects of other kinds cannot be read"),
            EventWords("Warning", "DefinitionOutdated", "see the reason of Ready"),
            EventWords("Warning", "StatusWrittenByOthers", "another controller was noticed"),
            EventWords("Normal", "NoForeignManager", "it has stopped writing"),
            EventWords("Warning", "PoolsOverlap", "another pool begins to overlap with it"),
        ),
    ),
    "IPAllocation": Words(
        conditions=(
            ConditionWords(
                "Ready",
                "the allocation holds its range",
                {
                    "Ready": "True, phase Allocated: the message has the range, its pool, and"
                    " the free block that it was taken out of when it was chosen",
                    "PoolNotFound": "False, phase Pending: the pool does not exist",
                    "PoolUnreadable": "False, phase Pending: the pool cannot be read; correct or"
                    " delete it",
                    "PoolNotReady": "False, phase Pending: the pool hands out nothing, or is"
                    " being deleted; the message has the reason of the pool",
                    "AllocationFailed": "False, phase Pending: the API server refused to store the"
                    " range; the message has its sentence, and it is tried again each minute",
                    **{
                        reason: meaning.replace("False", "False, phase Failed")
                        for reason, meaning in UNMET.items()
                    },
                    "WaitingForTenant": "False, being deleted: the tenant still has the range, or"
                    " cannot be asked",
                    "Released": "False, phase Released: the range was given back in this moment",
                },
            ),
            ConditionWords(
                "DualStack",
                "it has a range of each family; absent where that was not asked for",
                {
                    "DualStack": "True",
                    "PoolSingleStack": "False: the pool has one family",
                    "PoolExhausted": "False: the pool had no range of the second family free",
                },
            ),
            ConditionWords(
                "OwnerFound",
                "its TenantCluster was seen; absent if that was always known",
                {
                    "TenantClusterSeen": "True",
                    "TenantClusterNeverSeen": "False: the range is kept until it is created",
                },
            ),
        ),
        events=(),
    ),
    "TenantCluster": Words(
        conditions=(
            ConditionWords(
                "Ready",
                "the tenant can use its addresses",
                {
                    "Ready": "True",
                    "ReconcileDegraded": "True, though not all is well: it was Ready before",
                    "Deleting": "False: addresses are being given back",
                    "UnreadableAllocation": "False: as for NetworkReady",
                },
            ),
            ConditionWords(
                "NetworkReady",
                "its addresses are allocated, or it needs none",
                {
                    "Ready": "True",
                    "Reconciling": "False: allocations wait for their ranges",
                    **UNMET,
                    "PoolNotFound": "False: no pool that the ProviderConfig names exists",
                    "PoolUnreadable": "False: a pool that the ProviderConfig names cannot be read,"
                    " so neither it nor the pools behind it are chosen; the message names it",
                    "UnreadableAllocation": "False: an IPAllocation of the cluster cannot be"
                    " read, so nothing is changed for the cluster; the message names it",
                    "ProviderConfigNotFound": "False: there is no ProviderConfig for it",
                    "ProviderConfigUnknown": "False: the platform's default cannot be read",
                    "ProviderConfigUnreadable": "False: the ProviderConfig cannot be read; the"
                    " message names it",
                    "NetworkNotReady": "False: the ProviderConfig names no pools",
                    "ProviderAccessDenied": "False: the ProviderConfig is another team's",
                    "NamespaceNotAllowed": "False: the ProviderConfig is in a namespace that"
                    " --pool-namespaces does not name",
                },
            ),
            ConditionWords(
                "LoadBalancerReady",
                "the load balancer in the tenant holds the ranges",
                BALANCER,
            ),
            ConditionWords(
                "LoadBalancerDemandMet",
                "no Service of the tenant has been without an address for long",
                DEMAND,
            ),
            ConditionWords(
                "LoadBalancerSized",
                "a static tenant has as many load-balancer addresses as its spec asks for; absent"
                " without spec.networking.lbPoolSize, and in elastic mode",
                SIZED,
            ),
            ConditionWords(
                "TenantIdentified",
                "present, and False, only while it is unknown which cluster the tenant is",
                {
                    "IdentityForbidden": "False: the kubeconfig's user may not get the namespace"
                    " kube-system, so another TenantCluster in the same cluster is not noticed",
                },
            ),
            ConditionWords(
                "SingleLoadBalancer",
                "present, and False, only while the tenant has pools of a load balancer that its"
                " spec does not name",
                {
                    "LoadBalancersConflict": "False: two load balancers take addresses from each"
                    " other's Services; the message names the pools",
                },
            ),
            ConditionWords(
                "LoadBalancerAnnounced",
                "present, and False, only while nothing announces the addresses of the tenant's"
                " Services to the network",
                {"NotAnnounced": "False: the message says what to create in the tenant"},
            ),
            ConditionWords(
                "MetalLBInstalled",
                "the bundle that --metallb-bundle names is applied; absent without one",
                {
                    "Installed": "True: the message has its digest",
                    **{k: v for k, v in NO_WAY_IN.items() if k.startswith("MetalLBI")},
                    "MetalLBBundleInvalid": NO_WAY_IN["MetalLBBundleInvalid"],
                },
            ),
            ConditionWords(
                "Reconciling",
                "present while Ready is False and something goes on; the reason is that of Ready",
            ),
            ConditionWords("Stalled", "present in phase Failed; the reason is that of Ready"),
        ),
        events=(
            EventWords("Normal", "ClusterProvisioning", "addresses are asked for"),
            EventWords("Normal", "ClusterReady", "phase Ready was reached"),
            EventWords("Normal", "ClusterDeleting", "addresses are being given back"),
            EventWords("Warning", "ClusterFailed", "nothing can be asked for; the note says why"),
            EventWords(
                "Normal", "RangeAllocated", "the cluster got the range that the note names"
            ),
            EventWords(
                "Normal", "RangeReleased", "the range that the note names left the cluster"
            ),
            *(
                EventWords("Warning", reason, f"the condition {condition} turned to this reason")
                for condition, reasons in (
                    ("NetworkReady", ("PoolNotFound", "PoolUnreadable", "UnreadableAllocation")),
                    (
                        "NetworkReady, LoadBalancerDemandMet or LoadBalancerSized",
                        ("PoolExhausted",),
                    ),
                    ("LoadBalancerDemandMet or LoadBalancerSized", ("QuotaExceeded",)),
                    ("LoadBalancerDemandMet", ("GrownInVain", "SizeReached")),
                    ("LoadBalancerSized", ("AddressesInUse", "RangeNotDivisible")),
                    (
                        "LoadBalancerReady",
                        (
                            "TenantIsManagementCluster",
                            "TenantShared",
                            "PoolMadeByOthers",
                            "KubeconfigRefused",
                            "TenantUnreachable",
                            "TenantRefused",
                            "Unauthorized",
                        ),
                    ),
                )
                for reason in reasons
            ),
            EventWords(
                "Warning",
                "NodeAddressesDeleted",
                "the IPAllocation of nodes of a cluster that lives was deleted; its range is asked"
                " for again",
            ),
            EventWords(
                "Warning",
                "ManualEditOverwritten",
                "what is written into the tenant was changed there, and was written back",
            ),
            EventWords(
                "Warning",
                "TeardownGracePassed",
                "a deleted cluster's tenant did not answer, or kept using it, for"
                " --teardown-grace, and its addresses are released nevertheless",
            ),
        ),
    ),
    "ProviderConfig": Words(
        conditions=(
            ConditionWords(
                "Ready",
                "the provider can be used",
                {
                    "Ready": "True",
                    "CredentialsInvalid": "False: as for CredentialsValid",
                    "PoolExhausted": "False: as for PoolAvailable",
                    "PoolNotFound": "False: as for PoolAvailable",
                    "PoolUnreadable": "False: as for PoolAvailable",
                    "Reconciling": "False: as for PoolAvailable",
                    "TenantClusterUnreadable": "False: it is being deleted, and a TenantCluster"
                    " that may refer to it cannot be read; the message names it",
                    "NamespaceNotAllowed": "False: --pool-namespaces does not name its namespace",
                    "ValidationFailed": "False: the spec contradicts itself, or names a team that"
                    " does not exist",
                },
            ),
            ConditionWords(
                "CredentialsValid",
                "the Secret is there and has what the provider needs",
                {
                    "Ready": "True",
                    "CredentialsInvalid": "False: the message names the Secret and the keys",
                },
            ),
            ConditionWords(
                "PoolAvailable",
                "its pools have free addresses; absent outside of IPAM mode",
                {
                    "PoolAvailable": "True: the message counts them",
                    "PoolExhausted": "False: none has any",
                    "PoolNotFound": "False: none of its pools exists; the message names them",
                    "PoolUnreadable": "False: those of its pools that exist cannot be read; the"
                    " message names them",
                    "Reconciling": "False: the pools were not reconciled yet",
                    "NamespaceNotAllowed": "False: --pool-namespaces does not name the namespace"
                    " of the ProviderConfig and its pools, so they hand out nothing",
                    "ValidationFailed": "False: it names no pools",
                },
            ),
        ),
        events=(
            EventWords("Warning", "CredentialsInvalid", "CredentialsValid turned False"),
            EventWords("Warning", "PoolsExhausted", "no pool has a free address any more"),
            EventWords("Warning", "PoolsNotFound", "none of the pools that it names exists"),
            EventWords(
                "Warning", "PoolsUnreadable", "those of its pools that exist cannot be read"
            ),
            EventWords("Warning", "TenantClusterUnreadable", "see the reason of Ready"),
        ),
    ),
    "IPAddressClaim": Words(
        conditions=(ConditionWords("Ready", "it has its address", CLAIM),),
        events=(
            EventWords("Normal", "AddressAllocated", "it got its address"),
            *(
                EventWords("Warning", why, "it waits; the note says for what")
                for why in [*CLAIM][1:]
            ),
        ),
    ),
    **dict.fromkeys(CLAIM_POOL_KINDS, _CLAIM_POOL),
    **KUBERMATIC,
    **VITISTACK,
}

_SELF = "IPAllocation"
MARKS: Mapping[str, tuple[str, str]] = {
    names.LABEL_TEAM: (_SELF, "label: the namespace of its TenantCluster"),
    names.LABEL_TENANT: (_SELF, "label: the name of its TenantCluster"),
    names.LABEL_POOL: (_SELF, "label: the name of its pool"),
    names.LABEL_TYPE: (_SELF, "label: nodes or loadbalancer"),
    names.LABEL_ROLE: (_SELF, "label: initial or growth; only growth ever shrinks"),
    names.LABEL_MANAGED_BY: (_SELF, "label: `butler` on what our controllers made"),
    names.LABEL_PLATFORM_LB: ("Service in a tenant", "label: the platform's own ingress"),
    names.ANNOTATION_TENANT_UID: (
        _SELF,
        "annotation: the uid of the TenantCluster it was made for; who has that uid owns it",
    ),
    names.ANNOTATION_ALLOCATION_UID: (
        "CiliumLoadBalancerIPPool in a tenant",
        "annotation: the uid of the IPAllocation whose range the pool has",
    ),
    names.ANNOTATION_EMPTIED_UNDER: (
        "CiliumLoadBalancerIPPool in a tenant",
        "annotation: the Cilium operator that led when the pool was emptied for a release",
    ),
    names.ANNOTATION_RELEASE_NOTE: (
        _SELF,
        "annotation: what its release has to know of a Service that had an address of its range",
    ),
    names.ANNOTATION_LOAD_BALANCER: (
        _SELF,
        "annotation: the load balancer that may have its range; none stands for metallb",
    ),
    names.ANNOTATION_LEAVING_BALANCER: (
        _SELF,
        "annotation: since when its range leaves that load balancer, as its TenantCluster asks",
    ),
    names.ANNOTATION_REQUESTED_AT: (
        _SELF,
        "annotation: when a request that moved to another pool was first made",
    ),
    names.ANNOTATION_REPLACES: (
        _SELF,
        "annotation: the uid of a deleted allocation of nodes whose range it asks for again",
    ),
    names.ANNOTATION_RELEASING: (
        _SELF,
        "annotation: since when shrink gives it back; projections leave it out",
    ),
    names.ANNOTATION_MARKER_CREATION: (
        _SELF,
        "annotation: a replica is creating `butler-ipam-marker` in the tenant",
    ),
    names.ANNOTATION_IDLE_SINCE: (_SELF, "annotation: since when no Service uses it"),
    names.ANNOTATION_RELEASE_ANYWAY: (
        "TenantCluster",
        "annotation, **set by people**: the tenant is gone for good, do not wait for it",
    ),
    names.ANNOTATION_PROJECTION_OWNER: (
        "IPAddressPool, L2Advertisement in a tenant",
        "annotation: the TenantCluster, `namespace/name`, that it was made for",
    ),
    names.ANNOTATION_PROJECTION_OWNER_UID: (
        "IPAddressPool, L2Advertisement in a tenant",
        "annotation: the uid of that TenantCluster",
    ),
    names.ANNOTATION_PROJECTION_MANAGEMENT: (
        "IPAddressPool, L2Advertisement in a tenant",
        "annotation: which management cluster made it, by the uid of its namespace kube-system",
    ),
    names.ANNOTATION_TENANT_IDENTITY: (
        "TenantCluster",
        "annotation: which cluster the tenant is, by the uid of its namespace kube-system",
    ),
    names.ANNOTATION_TENANT_MOVED: (
        "TenantCluster",
        "annotation: since when its kubeconfig leads to another cluster than for older ranges",
    ),
    names.ANNOTATION_PROJECTION_BEGUN: (
        "TenantCluster",
        "annotation: when the first range was about to be written into the tenant",
    ),
    names.ANNOTATION_GROWN_IN_VAIN: (
        "TenantCluster",
        "annotation: Services that growing did not help",
    ),
    names.ANNOTATION_METALLB_BUNDLE: (
        "TenantCluster",
        "annotation: the digest of MetalLB's bundle that was applied",
    ),
    names.ANNOTATION_MOVING: (
        "TenantCluster",
        "annotation: requests on their way to another pool, with their age",
    ),
    names.ANNOTATION_PROMISES: (
        "in-cluster pools, IPPool, IPAMPool, NetworkNamespace",
        "annotation: addresses promised to claims, and how far these were read; never edit it",
    ),
    names.ANNOTATION_PROMISES_VOID: (
        "IPAMAllocation; IPClaim and IPAddressClaim of an IPPool",
        "annotation: promises made before then are void",
    ),
    names.ANNOTATION_MADE_FOR: (
        "IPAddress of an IPPool",
        "annotation: the uid of the claim that it was created for",
    ),
    names.ANNOTATION_RELEASED_AT: (
        "IPAddress",
        "annotation: since when it rests before its address is handed out again",
    ),
    names.ANNOTATION_RESTORED_ADDRESS: (
        "IPAddressClaim",
        "annotation: the address of its restored IPAddress, while this is recreated",
    ),
    names.ANNOTATION_PROJECTION_BASIS: (
        "IPAddressPool in a tenant",
        "annotation: how far the writer had read the allocations",
    ),
    names.ANNOTATION_PROJECTION_SEEN: (
        "IPAddressPool in a tenant",
        "annotation: the same, on a pool that others made",
    ),
    names.FINALIZER_POOL: ("NetworkPool", "finalizer: no allocation names the pool any more"),
    names.FINALIZER_ALLOCATION: (_SELF, "finalizer: no Service or node uses the range any more"),
    names.FINALIZER_TENANT: (
        "TenantCluster",
        "finalizer: its load-balancer allocations are gone",
    ),
    names.FINALIZER_PROVIDER: ("ProviderConfig", "finalizer: no TenantCluster uses it any more"),
}
"""By name: on what it is, and what it says."""
