"""What must be seen, and how it is told: with the values that the API servers show.

common        what several are made of
pools         pools, and providers that offer them
allocations   allocations
clusters      clusters in the management cluster
tenants       inside of tenants
events        events
"""
