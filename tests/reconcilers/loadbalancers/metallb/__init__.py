"""Tests of what is written into a tenant's MetalLB."""
