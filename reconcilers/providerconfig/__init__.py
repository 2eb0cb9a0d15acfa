"""The pass over a ProviderConfig: whether it can be used, and for how many more tenants."""
