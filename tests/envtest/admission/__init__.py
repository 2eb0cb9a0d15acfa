"""Admission webhooks, held against what a real API server did."""
