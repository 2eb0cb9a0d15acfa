"""The load balancers of tenants.

metallb/  MetalLB
"""
