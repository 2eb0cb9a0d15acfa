"""A stand-in for MetalLB in a tenant: what tests and demonstrations talk to in its place.

pools.py       what the tenant's API server is told of its kinds, and pools as it understands them
controller.py  which Service has which address, and the loop around that

It is a stand-in and no MetalLB: it announces nothing to any network. Accepted and without effect
here: `serviceAllocation`, `avoidBuggyIPs`, shared addresses (`allow-shared-ip`), and everything of
an L2Advertisement; a pool's status does not count its addresses.
"""
