"""Tests of the load balancers of tenants."""
