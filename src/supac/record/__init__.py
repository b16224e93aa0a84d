"""What happened: runs, rounds, the end, in memory or in one SQLite file."""
