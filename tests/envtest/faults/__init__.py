"""Tests of the proxy that injects faults."""
