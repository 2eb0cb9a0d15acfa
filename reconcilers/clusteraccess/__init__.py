"""Access to clusters: caches of the management cluster, and clients of tenants.

managementcaches.py   the caches of our four kinds
clusteridentity.py    which cluster an API server belongs to, and who may use it
tenantfailures.py     why a tenant cannot be used
tenantkubeconfigs.py  where the kubeconfig of a tenant is, and transports made of it
tenantaccess.py       what a process remembers of the access to a tenant
tenantclients.py      clients of tenants, kept while they work
"""
