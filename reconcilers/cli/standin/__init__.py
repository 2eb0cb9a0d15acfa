"""Stand-ins for the load balancers of tenants, for demonstrations and tests.

pools.py             MetalLB's kinds, and pools as the stand-in for MetalLB understands them
controller.py        which Service has which address of MetalLB, and the loop around that
lbipam.py            the same for Cilium's LB-IPAM, with the kinds of Cilium that matter here
serviceaddresses.py  the addresses that Services show

They are stand-ins and neither MetalLB nor Cilium: they announce nothing to any network. Accepted
and without effect by the one for MetalLB: `serviceAllocation`, `avoidBuggyIPs`, shared addresses
(`allow-shared-ip`), and everything of an L2Advertisement; a pool's status does not count its
addresses. By the one for LB-IPAM: `serviceSelector`, sharing keys, and the conditions of Services.
"""
