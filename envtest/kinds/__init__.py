"""What is known of the built-in kinds: names, verbs, schemas and wire numbers, and how to read."""
