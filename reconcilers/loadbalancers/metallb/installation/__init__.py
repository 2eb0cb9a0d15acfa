"""MetalLB is installed in tenants that lack it, from a bundle of manifests, if there is one.

bundle.py     what the ConfigMap holds, checked before any of it is sent
installer.py  applying it to one tenant, in order, and when to do so again
"""
