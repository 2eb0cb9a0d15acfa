"""The promise protocol, as the integrations have it in common.

A *space* is what may be handed out, the *journal* is kept in the object whose resourceVersion
serialises those who hand it out, *holdings* are what is used of the space, and a *request* is an
object that gets an address by one write. The rules are those of ARCHITECTURE.md, "Two ranges
never overlap".

Read in this order: `reconcilers/promises/` (journals, the queue, the choice, what is over, and
what is due), then `rules` (what was read of a pool). For claims that get IPAddresses:
`claimreading`, `claimwrites`, `claimkind`.
"""
