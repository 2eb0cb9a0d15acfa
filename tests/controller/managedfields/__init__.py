"""Tests of `controller.managedfields`; those with kinds of a server are in envtest/patching."""
