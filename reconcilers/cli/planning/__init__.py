"""What controllers would do with manifests: they work on an API server in memory.

server.py      the API server, and what is stored there when
controllerrun.py   lets the controllers work until they rest
outcome.py     what they made of the input, as it is printed
audit.py       what is wrong among objects that are each sound by themselves
report.py      what becomes of the pools, how much more would fit, and the outcome for people

docs/design/plan.md has the decisions.
"""
