"""A tenant's addresses: asked for on the management cluster, projected into the tenant's MetalLB.

membership.py   which allocations are a tenant's, and what they are called
provider.py     which ProviderConfig counts
sizing.py       how many addresses
poolchoice.py   from which pool
drafts.py       which allocations it should have, as decisions
asking.py       the two allocations exist, or why not
kubeconfigs.py  which Secret leads into a tenant, and what of it is trusted
tenants.py      the way into a tenant
metallb.py      what MetalLB in the tenant should hold, and writing it
gate.py         has the tenant let go of a range?
teardown.py     a cluster that is being deleted
status.py       phase and conditions
reconciler.py   one pass
"""
