"""Tests of the admission webhooks: what they reject, and what they warn about."""
