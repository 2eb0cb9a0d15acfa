"""Formats on the wire: protobuf, and who gets which format."""
