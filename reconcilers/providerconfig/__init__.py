"""Whether a provider can be used, and how many more tenants its pools suffice for."""
