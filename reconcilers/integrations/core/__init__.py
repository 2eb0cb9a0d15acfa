"""The parts of the promise protocol that the integrations share.

A *space* is the set of addresses that a pool may hand out. The *journal* is stored in the pool,
whose resourceVersion lets only one of two concurrent replicas write it. *Holdings* are the used
addresses of a space. A *request* is an object that gets an address by one write. The rules are
those of ARCHITECTURE.md, "Two ranges never overlap".

Read in this order: `reconcilers/promises/` (journals, the queue, the choice, what is over, and
what is due), then `rules` (what was read of a pool). For claims that get IPAddresses:
`claimreading`, `claimwrites`, `claimkind`.
"""
