"""The loop from a problem to a result: ask, run, tell, validate."""
