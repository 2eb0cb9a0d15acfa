"""A control plane for tests and first steps."""
