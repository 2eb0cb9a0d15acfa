"""Tests of reconcilers."""
