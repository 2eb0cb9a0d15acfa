"""The kinds that the API server in memory can serve, by plural: API version and kind."""

OURS = "butler.butlerlabs.dev/v1alpha1"
METALLB = "metallb.io/v1beta1"
KINDS = {
    "networkpools": (OURS, "NetworkPool"),
    "ipallocations": (OURS, "IPAllocation"),
    "tenantclusters": (OURS, "TenantCluster"),
    "providerconfigs": (OURS, "ProviderConfig"),
    "butlerconfigs": (OURS, "ButlerConfig"),
    "teams": (OURS, "Team"),
    "secrets": ("v1", "Secret"),
    "services": ("v1", "Service"),
    "events": ("events.k8s.io/v1", "Event"),
    "ipaddresspools": (METALLB, "IPAddressPool"),
    "l2advertisements": (METALLB, "L2Advertisement"),
    "servicebgpstatuses": (METALLB, "ServiceBGPStatus"),
    "configurationstates": (METALLB, "ConfigurationState"),
    "addressoffers": ("balancer.example/v1", "AddressOffer"),
    "ciliumloadbalancerippools": ("cilium.io/v2", "CiliumLoadBalancerIPPool"),
    "ciliuml2announcementpolicies": ("cilium.io/v2alpha1", "CiliumL2AnnouncementPolicy"),
    "ciliumbgpadvertisements": ("cilium.io/v2", "CiliumBGPAdvertisement"),
    "namespaces": ("v1", "Namespace"),
    "configmaps": ("v1", "ConfigMap"),
    "deployments": ("apps/v1", "Deployment"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
    "customresourcedefinitions": ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
}
CLUSTER_SCOPED = {
    "butlerconfigs",
    "ciliumbgpadvertisements",
    "ciliuml2announcementpolicies",
    "ciliumloadbalancerippools",
    "customresourcedefinitions",
    "namespaces",
}
OPTIONAL = {
    *("butlerconfigs", "teams", "addressoffers", "leases"),
    *("ciliumloadbalancerippools", "ciliuml2announcementpolicies", "ciliumbgpadvertisements"),
}
"""Kinds of the platform and of other balancers; a test says so where they are served."""
