"""Vitistack's kinds, served by the product as a process, on either server."""
