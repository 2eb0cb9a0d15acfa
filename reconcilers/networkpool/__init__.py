"""The allocator's controller: the only one that hands out ranges.

A pool's status is the point where all replicas meet: a range is promised there first, with the
pool's resourceVersion as precondition, and only then written to the allocation, with the version
that the promise names. So two ranges never overlap, however many replicas believe they lead.

    view.py       which allocations there are, and how far the reader has read
    protocol.py   the rules as pure functions: what is settled, who waits, who gets what
    status.py     what the pool's status says of it
    soundness.py  what is amiss: overlaps, ranges outside, free space in bits
    neighbours.py other pools that may hand out the same addresses
    foreign.py    another controller that writes our statuses
    fence.py      a pool without memory hands out nothing until earlier promises are void
    writes.py     the writes, each with its precondition
    courier.py    promises that are not yet kept: which to write now, which later
    alarms.py     events when a tier of utilization is entered or left
    report.py     events and log lines about what was handed out
    departure.py  a pool that is being deleted
    reconciler.py one pass
"""
