"""Growth and shrink of tenants, from what their Services show or their spec asks for.

demand.py       addresses in use, Services that wait for an address, and since when
observation.py  what a pass reads before it decides
decisions.py    when a tenant grows, when it shrinks, and why not: pure functions
changes.py      a decision carried out
"""
