"""The allocations of a tenant: which are its own, which are missing, and from which pool.

membership.py  which allocations are a tenant's, and their names
poolchoice.py  the first pool whose free space fits
requests.py    which allocations a tenant should have, and from which pool: decisions
requester.py   the allocations are created, and moved to another pool
"""
