"""A load balancer that exists in tests alone, so that the port is more than MetalLB's shape.

offers.py    its one kind of object, and the process in the tenant that hands out addresses
adapter.py   it behind the port of load balancers, with a switch for each rule of the port
"""
