"""The command line: `butler-ipam`, also as `kubectl ipam`; the root that composes the rest.

Read `main` for the list of commands; each is a module of its own, imported only when
it is the one that runs, so that `plan` loads neither an HTTP client nor the embedded API server.
"""
