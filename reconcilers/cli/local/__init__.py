"""A whole platform on one machine: API servers, controllers, and tenants with a stand-in.

servers.py    API servers, embedded or real, and the ways into them
objects.py    any manifest, applied over HTTP
platform.py   what `up` and `demo` start: CRDs, controllers, tenants
signals.py    Ctrl-C
"""
