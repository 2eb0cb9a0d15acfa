"""Patches and field ownership, held against recorded answers and against laws."""
