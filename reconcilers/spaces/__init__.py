"""What pools of all kinds hand out, and which of them hand out the same addresses.

    offers.py      what one pool hands out, in one form for pools of all kinds
    intervals.py   sorted intervals: which of them touch an interval
    index.py       all offers, kept current: which other pools share addresses with an offer
    sharing.py     the sentence and the condition that report shared addresses
    announcing.py  which pools need a pass because the offers of another pool have changed

Each kind of pool has an adapter in its own package (`networkpool/offers.py` and
`integrations/*/offers.py`), which turns an object into offers. The condition of a pool is a
function of the pool objects. It is computed when the pool is reconciled, and stays unchanged while
the pools of some kind are still to be read.
"""
