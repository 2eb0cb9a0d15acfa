"""Tests of `managedfields`; those that need kinds of a server are in tests/envtest/patching."""
