"""The built-in kinds: their names, verbs, schemas and protobuf fields, and decoding by schema."""
