"""Allocations and their owners: who is whose, and what becomes of those whose owner is gone.

census.py     what the caches say of each allocation's owner: pure functions
labels.py     the labels that people find allocations by, which never decide anything
owners.py     what a live read says of an owner
collector.py  one sweep: collect, adopt, repair
suspension.py when so many would go at once that something else must be wrong
"""
