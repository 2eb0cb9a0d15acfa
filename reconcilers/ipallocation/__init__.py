"""The life of one request: finalizer, Pending, and Released only after the tenant let go."""
