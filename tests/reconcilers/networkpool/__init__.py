"""Tests of the reconciler of NetworkPools."""
