"""Tests of the reconciler of TenantClusters."""
