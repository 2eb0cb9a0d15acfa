"""Pools of all kinds on one server, which say of each other that they share addresses."""
