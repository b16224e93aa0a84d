"""Exchange of runs and results with other tools."""
