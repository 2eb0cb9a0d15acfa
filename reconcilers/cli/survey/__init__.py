"""What a cluster's addresses look like now: read once, worked out, shown.

objects.py      the objects of a cluster, or of files that were saved from one
extents.py      a pool's whole space as one ordered list: who holds what, the gaps, how full it is
drawing.py      a pool's space for a terminal, as SVG, as one HTML page
audit.py        what is wrong: overlaps, orphans, ranges outside, statuses that drifted
tenantdrift.py  the same of MetalLB in the tenants
repair.py       the audit's report, and carrying out what was reviewed
"""
