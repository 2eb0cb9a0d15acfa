"""Who asks, and what they may do: tokens, certificates, RBAC."""
