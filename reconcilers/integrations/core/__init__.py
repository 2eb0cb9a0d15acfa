"""What integrations have in common: the promise protocol for objects of any kind.

A *space* is what may be handed out, the *journal* is kept in the object whose resourceVersion
serialises those who hand it out, *holdings* are what is used of the space, and a *request* is an
object that gets an address by one write. The rules are those of ARCHITECTURE.md, "Two ranges
never overlap".

Read in this order: `journal` (promises, and where they are kept), `contents` (what is held and who
waits, kept from pass to pass), `rules` (pure functions), `passes` (what surrounds each pass over a
pool, and which promises it completes).
"""
