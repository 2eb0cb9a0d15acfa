"""A tenant gives ranges back, and a deleted one everything.

check.py         whether a tenant has released a range
creationnote.py  a creation in the tenant is recorded before
markedranges.py  ranges that shrink has marked
teardown.py      clusters that are being deleted, or gone
"""
