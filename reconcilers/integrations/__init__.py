"""Kinds of other platforms that are served from the same allocator: opt-in, one package each."""
