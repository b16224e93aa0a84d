"""Sixty-four to five hundred parameters: problems, their optima, and other methods beside ours."""
