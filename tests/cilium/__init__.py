"""The adapter for Cilium against the real LB-IPAM on a real API server.

`make real` builds LB-IPAM of the Cilium that tests/realservers/cilium/go.mod names, without the
rest of the operator.
"""
