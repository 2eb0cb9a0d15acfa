"""What a server holds before the first request: namespaces, default roles, its own Service."""

from envtest.bootstrap.start import bootstrap, publish_address

__all__ = ["bootstrap", "publish_address"]
