"""Access to clusters."""
