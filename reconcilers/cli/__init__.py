"""The command line, `butler-ipam`, also as `kubectl ipam`: the root that composes the rest."""
