"""What controllers would do with manifests, worked out without a cluster.

ledger.py     the objects, as a server would keep them
forecast.py   passes over them, by the reconcilers' own rules, until nothing changes
audit.py      what is wrong among objects that are each sound by themselves
whatif.py     what becomes of the pools, and how much more would fit
table.py      the outcome for people
"""
