"""The HTTP front: who asks and whether it may, which verb is meant, and the answer's bytes."""
