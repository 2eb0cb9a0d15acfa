"""Tests of what a cluster is told."""
