"""Vitistack's IPAllocations: the addresses of NetworkNamespaces, one object for each.

Read in this order: `api` (the kinds), `caches` (of them), `ranges` (what a network hands out),
`reading` and `writing` (what a pass over a network reads, and what it writes), `networks` (the
pass that hands out), `allocations` (one IPAllocation: expiry, what it shows of its network),
`configurations` (one NetworkConfiguration: makes IPAllocations and shows them).
"""
