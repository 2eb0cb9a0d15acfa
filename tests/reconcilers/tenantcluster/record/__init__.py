"""Tests of what is remembered of a tenant."""
