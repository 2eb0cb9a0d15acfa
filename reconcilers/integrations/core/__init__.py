"""The promise protocol, as the integrations have it in common.

A *space* is what may be handed out, the *journal* is kept in the object whose resourceVersion
serialises those who hand it out, *holdings* are what is used of the space, and a *request* is an
object that gets an address by one write. The rules are those of ARCHITECTURE.md, "Two ranges
never overlap".

Read in this order: `reconcilers/promises/` (journals, the queue, what is over, and what is due),
`contents` (what is held and who waits, kept from pass to pass), `rules` (pure functions), `passes`
(what surrounds each pass over a pool).
"""
