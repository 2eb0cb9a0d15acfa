"""Tests of envtest."""
