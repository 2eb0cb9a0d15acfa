"""A deterministic simulation of several replicas that all believe they lead.

Or that they hold shards, which move while passes are under way, and which two may believe to hold.

The reconcilers, client and caches are the real ones. The API server is a small model (model.py),
so that a seed decides when each request runs, whether its answer arrives, how far each cache lags,
and when a replica dies: what a real server cannot be made to repeat.

The pools, on a model of an API server that is as small as can be:

    model.py      the API server: versions, preconditions, finalizers, a log of events
    wire.py       requests in flight: they may run late, or lose their answer
    replica.py    one replica: lagging caches, real reconcilers, tasks that may be cut off
    laws.py       what must hold of every write, and in the end
    chaos.py      what happens to them, from a seed
    refusals.py   requests of which the server refuses writes for good
    stage.py      one scene, played by hand, for what a storm brings about too seldom
    scenes.py     those scenes
    poolrules.py  each rule of the protocol, switched off

What integrations have in common, whose journal is an annotation of the pool:

    journalchaos.py  what happens to them, from a seed
    journalrules.py  rules of the journal, switched off

The claims of Cluster API, on the same model:

    claimchaos.py  replicas that serve claims, and what happens to them, from a seed
    claimlaws.py   what must hold of every write, and in the end
    claimrules.py  each further rule of the protocol, switched off

NetworkPools that serve claims and allocations, with two journals, on the same model:

    sharedpools.py   replicas that serve both, what happens to them, and what must hold
    sharedscenes.py  scenes, played by hand
    sharedrules.py   each rule that keeps both apart, switched off

The networks of vitistack, on the same model:

    networkchaos.py  replicas that serve networks, and what happens to them, from a seed
    networklaws.py   what must hold of every write, and in the end
    networkrules.py  each further rule of the protocol, switched off

KKP's pools, on the same model:

    kkpchaos.py   replicas that serve IPAMPools, and what happens to them, from a seed
    kkplaws.py    what must hold of every write, and in the end
    kkprules.py   each rule of the protocol, switched off
    kkpscenes.py  scenes played by hand

The tenants, on whole servers in memory, with MetalLB's stand-in:

    routes.py        requests in flight
    tenantlaws.py    what must hold at every moment, and in the end
    tenancy.py       what happens to them, from a seed
    tenantscenes.py  scenes played by hand
    tenantrules.py   each rule of giving back, switched off
    memorytenancy.py  the same with a balancer of tests instead, through the port alone

`python -m tests.reconcilers.simulation` plays single seeds, with the log.
"""
