"""A tenant's addresses: requested on the management cluster, projected into its load balancer.

reconciler.py   one pass over one TenantCluster, as one function
tenantpass.py   what the steps of a pass share
current_cluster.py  the cluster as the pass has left it; all writes of it go through this
record/         what this process remembers of a cluster
provider.py     which ProviderConfig counts, and why it may not be used
allocations/    which allocations a tenant should have, from which pool; they are created and moved
projector.py    the ranges are written to the tenant's load balancer: one pass
projections.py which ranges it should hold
balancerwatch.py  what is written there is watched
corrections.py  edits by others that were undone there are reported
ownership/      whose a tenant and the pools in it are
release/        whether a tenant has released a range; clusters that are being deleted, or gone
elastic/        growth and shrink
services.py     the tenant's Services, from a watch or a LIST
watches.py      how many watches of tenants may be open
inspection.py   what is wrong in a tenant, for commands
platformservice.py  the label of the platform's Service
status.py       phase and conditions; networkstatus.py the ranges in the status
statuswriter.py the status is written, and events are recorded
"""
