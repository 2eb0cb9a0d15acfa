"""The embedded API server: requests in, Kubernetes' own answers out."""
