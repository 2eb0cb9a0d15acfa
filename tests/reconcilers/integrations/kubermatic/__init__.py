"""Tests of the integration with KKP."""
