"""The kinds that every API server has: names, verbs, schemas, and what makes each special."""
