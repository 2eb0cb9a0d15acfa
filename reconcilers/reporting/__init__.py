"""Texts about objects for people: conditions, sentences, log lines, and labels of allocations.

conditions.py        the conditions that reconcilers write
allocationstatus.py  the status of an allocation that waits for a range
dualstack.py         the condition DualStack
releaselog.py        log lines about ranges that are released
poolreferences.py    pools that a ProviderConfig names and that are absent or unreadable
allocationlabels.py  the labels by which people find allocations
wording.py           parts of sentences: counted nouns, lists that are cut
"""
