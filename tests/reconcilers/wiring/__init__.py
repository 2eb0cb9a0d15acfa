"""The controllers together."""
