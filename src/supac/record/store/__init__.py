"""The SQLite file behind a record."""
