"""Bytes on the wire: what Go's parsers say about bad ones, and which media types are spoken."""
