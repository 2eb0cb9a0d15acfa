"""A storm: two live replicas are killed and frozen while other platforms' objects come and go."""
