"""Tests of allocator."""
