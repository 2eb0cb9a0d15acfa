"""Metrics: counters of events, and gauges of the present state, computed at each scrape.

counters.py      what happened to allocations
objectgauges.py  pools, allocations, providers and tenants as the caches show them
waitgauges.py    what TenantClusters wait for
"""
