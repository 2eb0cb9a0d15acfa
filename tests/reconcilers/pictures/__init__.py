"""Pictures of pools of all kinds."""
