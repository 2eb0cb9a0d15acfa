"""What makes each built-in kind special: its rules, columns, defaults, and its place."""
