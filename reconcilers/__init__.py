"""What should be: API models, the four reconcilers, the command line."""
