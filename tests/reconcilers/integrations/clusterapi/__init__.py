"""Tests of the integration with Cluster API."""
