"""The log of a project: an append-only table in SQLite or PostgreSQL."""
