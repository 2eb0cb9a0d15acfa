"""A tenant's addresses: asked for on the management cluster, projected into the tenant's MetalLB.

membership.py   which allocations are a tenant's, what they are called, and what mends their labels
provider.py     which ProviderConfig counts
sizing.py       how many addresses a tenant starts with
outlook.py      what will be free in a pool once everybody who waits was served
poolchoice.py   from which pool
drafts.py       which allocations it should have, as decisions
moving.py       the age of a request that moves to another pool
asking.py       the allocations exist, or why not
kubeconfigs.py  which Secret leads into a tenant, and what of it is trusted
tenants.py      the way into a tenant
services.py     its Services, from a watch or read now
elastic/        growth and shrink
resizing.py     one pass of that
metallb.py      what MetalLB in the tenant should hold, and writing it
projecting.py   bringing it in line, and what is of a lost history
install/        MetalLB itself, from a bundle
gate.py         has the tenant let go of a range?
teardown.py     a cluster that is being deleted
network.py      what the provider's network means: bypass, an error, addresses to wait for
status.py       phase and conditions
reconciler.py   one pass
world.py        what is read of the management cluster
assembly.py     all of it put together
"""
