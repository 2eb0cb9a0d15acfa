"""MetalLB is installed in tenants that lack it, from a bundle of manifests, if there is one.

bundle.py      what the ConfigMap holds, judged before any of it is sent
installing.py  applying it to one tenant, in order, and when to do so again
"""
