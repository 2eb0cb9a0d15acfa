"""Tests of the map of addresses."""
