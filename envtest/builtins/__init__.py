"""The built-in kinds: their defaults, validation, table columns and other rules."""
