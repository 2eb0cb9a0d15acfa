"""A stand-in for MetalLB in a tenant: what tests and demonstrations talk to in its place.

crds.py        what the tenant's API server is told: IPAddressPool and L2Advertisement
api.py         what it reads, and the annotations that it heeds
presence.py    whether MetalLB's kinds are there yet
config.py      pools as MetalLB understands them, and what it refuses
assigning.py   which Service has which address: a function of pools and Services
controller.py  the loop around it

It is a stand-in and no MetalLB: it announces nothing to any network. Accepted and without
effect here: `serviceAllocation`, shared addresses (`allow-shared-ip`), and everything of an
L2Advertisement.
"""
