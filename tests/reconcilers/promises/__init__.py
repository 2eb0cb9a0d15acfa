"""Tests of the promise engine."""
