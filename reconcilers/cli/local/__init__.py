"""A whole platform on one machine: API servers, controllers, and tenants with a MetalLB.

servers.py    API servers, embedded or real, and the ways into them
objects.py    any manifest, applied over HTTP
metallb.py    MetalLB in tenants: the real one, or a stand-in
platform.py   what `up` and `demo` start: CRDs, controllers, tenants
replicas.py   the controllers, once or twice, each with a way in that can be cut (lifeline.py)
admission.py  their webhooks, put in force
samples.py    the samples that are shipped
signals.py    Ctrl-C
collector.py  how often such a process looks for garbage
"""
