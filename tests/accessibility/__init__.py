"""An accessibility checker (axe-core) looks at the page of addresses."""
