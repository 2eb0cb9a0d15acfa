"""The load balancers of tenants.

port.py        what the pass and the release check know of a load balancer
choice.py      which of them a tenant has
unsupported.py a provider that this release does not know
ownernotes.py  for whom something in a tenant was made
corrections.py edits by others of what we wrote in a tenant
metallb/       MetalLB
cilium/        Cilium's LB-IPAM
"""
