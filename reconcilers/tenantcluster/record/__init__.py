"""What this process remembers of each TenantCluster.

records.py  one record for each cluster, by uid, in one map
gate.py     the part of the release check
"""
