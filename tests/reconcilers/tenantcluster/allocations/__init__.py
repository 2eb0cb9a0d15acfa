"""Tests of which allocations a tenant should have."""
