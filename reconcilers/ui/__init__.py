"""The map of addresses as a page that stays current: served over HTTP, kept current by watches.

watched.py   informers of our kinds, and of our events
feed.py      what the page shows, recomputed when something changed; what is new to a reader
server.py    the page and its updates over HTTP, to whom a guard lets in
serving.py   all of it: for a person's own machine, and in a process of `butler-ipam run`
"""
