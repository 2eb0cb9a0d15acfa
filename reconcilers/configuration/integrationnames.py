"""The names of the integrations, as settings and flags have them."""

CLUSTER_API = "clusterapi"
KUBERMATIC = "kubermatic"
METAL3 = "metal3"
VITISTACK = "vitistack"
INTEGRATIONS = (CLUSTER_API, KUBERMATIC, METAL3, VITISTACK)
"""The platforms whose kinds can be served."""
