"""Tests of the integrations with other platforms."""
