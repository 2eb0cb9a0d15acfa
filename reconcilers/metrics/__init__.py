"""Metrics: what happened, counted as it happens, and what is now, read at each scrape.

counters.py      what happened to allocations
objectgauges.py  pools, allocations, providers and tenants as the caches show them
waitgauges.py    what TenantClusters wait for
"""
