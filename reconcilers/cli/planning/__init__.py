"""Plans: the real controllers work on manifests, on an API server in memory.

drafts.py          the objects of the input as the API server stores them
server.py          the API server in memory
controllerrun.py   runs the controllers until they rest
outcome.py         the objects after the run, in the form in which they are printed
audit.py           faults that concern several objects of the input
report.py          the tables for people, the changes of pools, and how many more tenants would fit

docs/design/plan.md has the decisions.
"""
