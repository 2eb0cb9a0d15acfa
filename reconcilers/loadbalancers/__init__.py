"""The load balancers of tenants.

port.py        what the pass and the release check know of a load balancer
ownernotes.py  for whom something in a tenant was made
metallb/       MetalLB
"""
