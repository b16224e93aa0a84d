"""Record of a search: runs, rounds and an ending, in memory or in one SQLite file."""
