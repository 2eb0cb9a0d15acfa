"""Tests of the reconciler of IPAllocations."""
