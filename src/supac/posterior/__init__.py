"""Uses of a posterior: predictions, sensitivities, and the choice of the next measurement."""
