"""The map of addresses as a page that stays current: served over HTTP, kept current by watches.

watched.py   informers of our kinds, and of our events
feed.py      the state of the page, recomputed after changes, and its changes for each reader
server.py    the page and its updates over HTTP; a guard decides who may read the updates
serving.py   starts all of it: on a person's own machine, or in a process of `butler-ipam run`
"""
