"""Which addresses? Pure arithmetic on address ranges."""
