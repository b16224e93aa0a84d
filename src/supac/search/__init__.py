"""Search: the next runs and the posterior, by algorithms that are pure functions of a state."""
