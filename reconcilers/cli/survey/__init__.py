"""What a cluster's addresses look like now: read once, shown.

objects.py      the options that say where to look, and reading a cluster, or files saved from one
drawing.py      a pool's space for a terminal
tenantdrift.py  what MetalLB in the tenants has that it should not have, or lacks
repair.py       the audit's report, and carrying out what was reviewed
"""
