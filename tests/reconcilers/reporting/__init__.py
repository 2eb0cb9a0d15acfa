"""What people read of objects."""
