"""The composition root: which controller watches what, and who is handed to whom.

assembling      all of it, put on one manager
shared          what every part is handed: informers, client, events, settings
networkpools    NetworkPool: itself, the IPAllocations that name it, pools that overlap with it
ipallocations   IPAllocation: itself, its pool where that appears, goes, or turns ready, and while
                it is given back its TenantCluster, whose status tells what was written into the
                tenant
tenantclusters  TenantCluster: itself, its IPAllocations, its ProviderConfig, pools while it
                waits, and the Services of elastic tenants
providerconfigs ProviderConfig: itself, the pools it names, and the clusters that refer to it
beside          what runs without a queue: orphans, gauges, webhooks
"""

from reconcilers.wiring.assembling import assemble

__all__ = ["assemble"]
