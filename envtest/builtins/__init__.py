"""The kinds that every Kubernetes API server has: names, verbs, schemas, and what makes each special."""
