"""Tests of whose a tenant and the pools in it are."""
