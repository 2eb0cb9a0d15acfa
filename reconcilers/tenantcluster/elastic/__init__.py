"""Growth and shrink of elastic tenants, from what their Services show and nothing else.

inventory.py   what the Services show: addresses in use, Services that wait for one
patience.py    since when a Service waits
vain.py        Services that growth did not help, so that it is not tried again for them
growth.py      how many allocations to add, by which names
look.py        what a pass has before it, and what it came to
shrink.py      which allocations are out of use, and for how long
caring.py      carrying that out
returning.py   giving back what shrink has marked, once the tenant let go
platform.py    the label of the platform's own load balancer
"""
