"""When to look? A framework for level-based controllers on raw watches."""
