"""Problems that the default search was not tuned on, and other methods beside it."""
