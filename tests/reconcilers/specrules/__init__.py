"""The rules of specs."""
