"""Growth and shrink of elastic tenants, from what their Services show and nothing else.

resizer.py          one pass over a tenant: labels, Services, growth and shrink, marked ranges
scaler.py           growth and shrink carried out on the management cluster
demand.py           addresses in use, Services that wait for one, and since when
unserved_growth.py  Services that growth did not help, so that it is not tried again for them
growth.py           how many allocations to add
blocked_growth.py   when growing would not help
findings.py         what the condition says
shrink.py           which allocations are out of use and for how long; giving them back
"""
