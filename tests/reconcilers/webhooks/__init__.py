"""What the webhooks refuse, and what they warn of."""
