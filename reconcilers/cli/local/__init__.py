"""A whole platform on one machine: API servers, controllers, and tenants with a load balancer.

servers.py      API servers, embedded or real, the ways into them, their kubeconfigs, and Ctrl-C
objects.py      any manifest, applied over HTTP
metallb.py      MetalLB in tenants: the real one, or a stand-in
platform.py     what `up` and `demo` start: CRDs, replicas of the controllers, tenants
webhooks.py     the replicas' webhooks, put in force
"""
