"""Findings about objects that wait or fail, for `status` and `check`.

tenants.py      TenantClusters: addresses, the tenant's API server, waiting Services, size
pools.py        NetworkPools and pools of other platforms: ready, room for waiting requests
conditions.py   a finding that repeats a condition
requests.py     IPAllocations that wait for a range, and ranges that are being released
controllers.py  the processes: leader, replicas, webhooks
report.py       all findings together, and the state of each area
explanation.py  why a tenant or an allocation has its ranges, or waits: for `explain`

An *area* is a group of findings that `status` shows on one line. Only controllers.py reads from a
cluster; the other modules compute their findings from objects that were read before.
"""
