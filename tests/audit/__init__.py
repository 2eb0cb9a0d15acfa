"""Finds addresses that were free, or held by another, while a tenant could use them.

history.py     the time for which each version of an object existed, by lists and watches
records.py     the addresses that each object held, promised, showed or offered over time
recorder.py    the lists and watches of all clusters, for the time of a context
rules.py       the findings, a pure function of the records
"""
