"""Tests of how a tenant gives ranges back."""
