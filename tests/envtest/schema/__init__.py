"""Tests of the structural-schema library."""
