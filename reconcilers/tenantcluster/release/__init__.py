"""A tenant gives ranges back, and a deleted one everything.

check.py         whether a tenant has released a range
creationnote.py  a creation in the tenant is recorded before
teardown.py      clusters that are being deleted, or gone
"""
