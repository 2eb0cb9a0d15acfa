"""KKP's IPAM: every user cluster of a datacenter gets addresses of each IPAMPool that names it.

Read in this order: `api` (KKP's kinds), `spaces` (what a datacenter of a pool may hand out),
`holdings` (what allocations hold), `planning` (who gets what, pure), `allocations` (the writes),
`pools` (a pass over a pool), `reports` and `clusters` (what is reported), `serving` (when this
runs). `observing` is for a KKP that allocates by itself.
"""
