"""The documents say what is so: their commands run, their objects apply, their names exist."""
