"""What people read of objects: conditions, sentences, and the labels of allocations.

conditions.py        a condition as it should be now
dualstack.py         the condition DualStack
releaselog.py        log lines about ranges that are released
poolreferences.py    pools that a ProviderConfig names and that are absent or unreadable
allocationlabels.py  the labels by which people find allocations
wording.py           parts of sentences: counted nouns, lists that are cut
"""
