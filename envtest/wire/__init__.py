"""Parsers for bytes of requests, with the results and error messages of Go's parsers."""
