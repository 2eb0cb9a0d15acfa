"""A tenant's addresses: requested on the management cluster, projected into the tenant's MetalLB.

reconciler.py   one pass over one TenantCluster
provider.py     which ProviderConfig counts, and why it may not be used
requests.py     which allocations a tenant should have, and from which pool: decisions
membership.py   which allocations are a tenant's, and their names
poolchoice.py   the first pool whose free space fits
requester.py    the allocations are created, and moved to another pool
elastic/        growth and shrink
services.py     the tenant's Services, from a watch or a LIST
projector.py    the ranges are written to the tenant's MetalLB
metallb.py      what MetalLB in a tenant should hold, and writing it
release.py      whether a tenant has released a range
teardown.py     clusters that are being deleted, or gone
status.py       phase, conditions and events
"""
