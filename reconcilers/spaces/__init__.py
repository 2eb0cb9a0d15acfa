"""What pools of all kinds hand out, and which of them hand out the same addresses.

    offers.py      what one pool hands out, in one form for pools of all kinds
    intervals.py   sorted intervals: which of them touch an interval
    index.py       all offers, kept current: which other pools share addresses with an offer
    sharing.py     the sentence and the condition that say it, the same wherever it is said
    announcing.py  which pools need a pass because another pool hands out something else now

Each kind of pool has an adapter in its own package (`networkpool/offers.py` and
`integrations/*/offers.py`), which turns an object into offers. The condition of a pool is a
function of the pool objects: it is worked out when the pool is reconciled, and is left alone while
the pools of some kind have not been read.
"""
