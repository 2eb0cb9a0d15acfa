"""Tests of growth and shrink."""
