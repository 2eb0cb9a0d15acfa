"""What pools of all kinds hand out."""
