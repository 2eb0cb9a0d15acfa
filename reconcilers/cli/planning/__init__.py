"""What controllers would do with manifests, worked out without a cluster.

ledger.py     the objects, as a server would keep them
forecast.py   passes over them, by the reconcilers' own rules, until nothing changes
audit.py      what is wrong among objects that are each sound by themselves
report.py     what becomes of the pools, how much more would fit, and the outcome for people
"""
