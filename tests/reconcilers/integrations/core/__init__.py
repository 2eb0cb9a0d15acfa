"""Tests of what integrations share."""
