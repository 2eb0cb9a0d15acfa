"""Which TenantCluster owns a tenant and the pools in it, so that no other one writes there.

identity.py  whether a TenantCluster's kubeconfig leads to its own cluster
pools.py     for whom an offer of addresses in a tenant was made
"""
