"""What the flags decide: intervals, thresholds, and the platforms that are served."""
