"""The reasons of the conditions that are about a tenant, and what each says."""

NO_WAY_IN = {
    "KubeconfigMissing": "False: there is no kubeconfig Secret yet; the message says where one"
    " was looked for",
    "KubeconfigRefused": "False: the kubeconfig asks for what is not allowed, or cannot be read",
    "TenantUnreachable": "False: the tenant's API server does not answer; tried again ever less"
    " often",
    "TenantWebhookFailed": "False: an admission or conversion webhook in the tenant does not"
    " answer, MetalLB's own for example; tried again every few seconds",
    "TenantRefused": "False: the tenant's API server refuses the request",
    "Unauthorized": "False: the tenant's API server does not know the credentials; the Secret is"
    " read again",
    "TenantIsManagementCluster": "False: the kubeconfig leads to the management cluster itself,"
    " where nothing is written or deleted",
    "TenantShared": "False: another TenantCluster leads to the same cluster and goes first; the"
    " message names it",
    "PoolMadeByOthers": "False: MetalLB's default-pool there was not made by us, so it is left as"
    " it is",
    "MetalLBNotInstalled": "False: the tenant does not serve metallb.io",
    "MetalLBInstalling": "False: MetalLB's bundle is on its way",
    "MetalLBBundleInvalid": "False: the ConfigMap that --metallb-bundle names holds no bundle",
    "MetalLBInstallFailed": "False: the tenant refuses an object of the bundle",
    "Behind": "False, for a moment: a newer state was written than this replica has read",
}
"""Why nothing can be written there."""

BALANCER = {
    "Ready": "True: the message has the ranges",
    **NO_WAY_IN,
    "MetalLBNotRunning": "False: MetalLB (0.15 or newer) has not read the pool: it does not run,"
    " or cannot use its configuration",
    "Contested": "False: another writer in the tenant keeps changing what is"
    " written there; the message names it",
}
"""Of LoadBalancerReady."""

DEMAND = {
    "Ready": "True",
    "OtherClass": "True: a Service waits, and asks for another load balancer; it"
    " makes nothing grow, and this holds for the next three reasons too",
    "OtherPool": "True: a Service waits, and asks for another IPAddressPool",
    "FixedAddress": "True: a Service waits, and asks for a certain address",
    "OtherFamily": "True: a Service waits, and asks for a family there is none of",
    "Growing": "False: addresses were asked for",
    "NotProjected": "False: MetalLB does not have what it should, so nothing is asked for; see"
    " LoadBalancerReady",
    "AddressesUnused": "False: addresses of the tenant are free and MetalLB does not assign them",
    "QuotaExceeded": "False: growing would go above maxLoadBalancerIPs",
    "PoolExhausted": "False: no pool has growthIncrement addresses in a row",
    "GrownInVain": "False: growing did not help; the tenant's own events say why",
}
"""Of LoadBalancerDemandMet."""
