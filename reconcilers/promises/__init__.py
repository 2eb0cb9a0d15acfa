"""The promise protocol: how an address is allocated to one request only.

A pool records a range for a request before the range is written to that request. The record is a
*promise*: it names the request at one resourceVersion. All open promises of a pool are its
*journal*, which is stored in the pool and written with the pool's resourceVersion as precondition.
docs/design/promises.md describes the protocol; docs/design/no-overlap.md proves it.

    identities holders and tenants: the kind of a request, and its key or group
    journal    promises, journals, and the journal as an annotation
    settling   which promises are over
    queue      the askers that wait, in rows of equal askers
    shares     which of them may get a promise, so that no tenant starves the others
    choosing   which askers get which ranges, for pools of all kinds
    due        which open promises a replica writes to their requests now
    results    what becomes of one write
    keeping    what becomes of promises: voided, if their write was refused for good
    requestkinds  what a kind of requests adds to a pass, and how its promises are written
    passes     one pass over one pool, which kinds of pools fill
    annotationwrites  what follows for a pass from a journal in an annotation
"""
