"""NetworkPools, whose passes alone hand out their addresses, and the collector of orphans.

A pool's status is the point where all replicas meet: a range is promised there first, with the
pool's resourceVersion as precondition, and only then written to the allocation, with the version
that the promise names. So two ranges never overlap, however many replicas believe they lead.
`reconcilers/promises/` has the rules that hold for pools of all kinds.

    poolkind.py         what NetworkPools add to the pass over pools of all kinds
    allocationkind.py   what IPAllocations add to it: found, served, refused, voided, fenced
    claims.py           what it asks about claims of Cluster API, and whether these are served
    facts.py            what its allocations hold and wait for
    view.py             its requests of all kinds, and up to which version they were read
    livelists.py        LISTs of allocations, each for all pools that need one at the same time
    statusjournal.py    its journal, which is a part of its status
    allocationtaking.py what an allocation gets of the pool's free addresses
    protocol.py         what one pass does, as a pure function: who gets what, which promises stay
    problems.py         overlaps, ranges outside, fragmented free space, and other controllers that
                        write our statuses, as conditions
    status.py           what is written to the pool's status
    pending_promises.py the writes of allocations; a pool without memory hands out nothing until
                        earlier promises are void
    events.py           events about what was handed out, and about how full the pool is
    orphans.py          allocations whose TenantCluster is gone are deleted
    owners.py           the owner of an allocation, as caches and live reads show it
    window.py           counts per pool over the last minute
"""
