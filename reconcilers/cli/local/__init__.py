"""A whole platform on one machine: API servers, controllers, and tenants with a load balancer.

servers.py      API servers, embedded or real, connections to them, and their kubeconfigs
objects.py      applies any manifest over HTTP
balancer.py     a load balancer of tenants, real or a stand-in
metallb.py      MetalLB in tenants
cilium.py       Cilium's LB-IPAM in tenants
platform.py     the platform of `up` and `demo`: CRDs, replicas of the controllers, tenants
webhooks.py     makes an API server call the replicas' webhooks
"""
