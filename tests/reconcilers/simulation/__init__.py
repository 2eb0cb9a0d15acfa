"""A deterministic simulation of several replicas that all believe they lead.

The reconcilers, client and caches are the real ones. The API server is a small model (world.py),
so that a seed decides when each request runs, whether its answer arrives, how far each cache lags,
and when a replica dies: what a real server cannot be made to repeat.

    world.py      the API server: versions, preconditions, finalizers, a log of events
    wire.py       requests in flight: they may run late, or lose their answer
    replica.py    one replica: lagging caches, real reconcilers, tasks that may be cut off
    chaos.py      what happens to them, from a seed
"""
