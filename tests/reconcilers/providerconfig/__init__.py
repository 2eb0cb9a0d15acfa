"""Tests of the reconciler of ProviderConfigs."""
