"""The reconciler of IPAllocations: finalizer, Pending, and at the end Released."""
