"""From evaluations to the projection of the risk on the family's statistics, and its minimiser."""
