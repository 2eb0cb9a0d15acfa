"""What a cluster's addresses look like now: its objects, read, drawn, followed and repaired.

objects.py      the options that select a cluster or saved files, and reading either
drawing.py      a pool's space as text for a terminal
follow.py       showing the objects again after each change
tenantdrift.py  how the load balancers of tenants differ from the allocations
objectnames.py  TenantClusters and IPAllocations as people name them
poolnames.py    pools as people name them
kindwords.py    kinds as people and kubectl name them
findingnames.py the subjects of findings as kubectl names them
repair.py       the report of the audit, and its reviewed actions carried out
"""
