"""A project: a folder beside the data with its items, their features, and its settings."""
