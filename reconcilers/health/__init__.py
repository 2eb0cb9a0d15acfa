"""One view of what waits or fails, for `status` and `check`.

tenants.py      TenantClusters: addresses, the tenant's API server, Services that wait, size
pools.py        NetworkPools and pools of other platforms: ready, room for what waits
conditions.py   a finding that repeats a condition
requests.py     IPAllocations that wait for a range, and ranges that are being released
controllers.py  the processes: leader, replicas, webhooks; read live

Each module yields findings from the objects alone; `report.py` puts them together by area.
"""
