"""Was an address ever free, or another's, while a tenant could use it? Recorded, then judged.

history.py     when each version of an object was in force, as lists and watches prove it
records.py     what is remembered of each kind: who held, promised, showed which addresses
recorder.py    the watches and lists, on management and all tenants, for the time of a context
rules.py       the judgement, a pure function of the records
"""
