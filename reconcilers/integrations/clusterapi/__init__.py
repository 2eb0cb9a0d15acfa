"""Cluster API's IPAM contract: IPAddressClaims are answered with IPAddresses from pools.

Read in this order: `api` (the kinds and the names in them), `addresses` (what a pool hands out).
"""
