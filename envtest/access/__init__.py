"""Authentication by tokens and certificates, and authorization by RBAC."""
