"""Follow-up is cut into rows where something changes."""
