"""Metrics of pools, allocations and tenants."""
