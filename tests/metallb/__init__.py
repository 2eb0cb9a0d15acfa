"""The controllers with the real MetalLB: real API servers, MetalLB's own controller in tenants."""
