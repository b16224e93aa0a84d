"""What follows from a posterior: predictions, sensitivities, and the next measurement."""
