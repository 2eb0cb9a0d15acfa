"""The release of a tenant's ranges: some by shrink, all when the tenant is deleted.

check.py         whether a tenant has released a range
creationnote.py  a creation in the tenant is recorded before
markedranges.py  ranges that shrink has marked
teardown.py      clusters that are being deleted, or gone
"""
