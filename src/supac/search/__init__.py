"""What to run next: algorithms as pure functions of a state."""
