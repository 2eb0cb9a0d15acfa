"""Whose a tenant and the pools in it are, so that nothing is written for one into another's.

identity.py  whether a TenantCluster's kubeconfig leads to its own cluster
pools.py     for whom an offer of addresses in a tenant was made
"""
