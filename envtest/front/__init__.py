"""The HTTP front: authentication, authorization, routing to verbs, and the bytes of answers."""
