"""A deterministic simulation of several replicas that all believe that they lead.

Or that they hold shards: a shard moves while passes are running, and two replicas may believe that
they hold it.

The reconcilers, client and caches are the real ones. The API server is `controller.testing`'s, on
which a seed decides when each request runs, whether its answer arrives, how far each cache lags,
and when a replica dies: what a real server cannot be made to repeat.

What all kinds of pools share:

    model.py      the fake API server by short names, and its history as caches read it
    wire.py       requests in flight: they may run late, or lose their answer
    replica.py    a replica: lagging caches, real reconcilers, tasks that may be cut off
    plans.py      which disturbances happen how often
    adapter.py    the interface of the following modules to the pools of one kind
    chaos.py      a run: a storm and a calm, from a seed
    laws.py       the laws of every write, and of the end
    refusals.py   requests of which the server refuses writes for good, and how many these may be
    stage.py      the stage of scenes: for events that a storm brings about too seldom
    switch.py     a rule, switched off, and the violation that follows
    journalrules.py  rules of the journal, switched off, for integrations

Each kind has an adapter, with its replica, its own laws and its own events; scenes; and rules,
which are switched off one by one:

    networkpools.py  scenes.py         poolrules.py     NetworkPools and IPAllocations
    claims.py        claimscenes.py    claimrules.py    in-cluster pools and claims of Cluster API
    clusters.py                                         the same of Clusters; addresses rest
    sharedpools.py   sharedscenes.py   sharedrules.py   NetworkPools that serve both by one journal
    ippools.py       ippoolscenes.py   ippoolrules.py   metal3's IPPools and claims of both kinds
    networks.py      networkscenes.py  networkrules.py  vitistack's networks and IPAllocations
    kkp.py           kkpscenes.py      kkprules.py      KKP's IPAMPools and Clusters

The tenants, on whole servers in memory, with MetalLB's stand-in:

    routes.py        requests in flight
    tenantlaws.py    the laws of every moment, and of the end
    tenancy.py       a run: a storm and a calm, from a seed
    tenantscenes.py  scenes played by hand
    tenantrules.py   each rule of releasing, switched off
    memorytenancy.py  the same with a balancer of tests instead, through the port alone

`python -m tests.reconcilers.simulation` plays single seeds, with the log.
"""
