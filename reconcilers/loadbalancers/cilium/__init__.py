"""Cilium's LB-IPAM as the load balancer of tenants. docs/design/cilium.md is the design.

pools.py       CiliumLoadBalancerIPPools: what is in them, what the operator has acknowledged
poolclient.py  reads and writes them in the version that a tenant serves
nonces.py      when a pool needs an edit that only asks for an acknowledgement
projection.py  makes a tenant hold the ranges that it should
release.py     the steps that prove that a range is out
services.py    which Services an address of ours could serve
adapter.py     all of it behind the port of load balancers
"""
