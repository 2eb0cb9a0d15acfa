"""Between API objects and address arithmetic: what specs and statuses mean in addresses.

addresstexts.py     texts as ranges
poolgeometry.py     a pool's blocks as layouts, and what they never hand out
statusranges.py     what allocations hold, and what pools promise
requestedranges.py  what a request asks for
familychoice.py     of which families a request gets addresses
rangetaking.py      what a request takes from the spaces of its pool
"""
