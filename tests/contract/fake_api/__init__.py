"""The fake API of `controller.testing` answers as a server does: the same cases on both.

The client, the informer and the kind are the same; only the transport differs.
"""
