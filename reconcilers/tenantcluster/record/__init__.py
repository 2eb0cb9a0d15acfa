"""What this process remembers of each TenantCluster.

records.py  one record for each cluster, by uid, in one map
"""
