"""Plots of a run with matplotlib (extra `plot`); each function returns its axes."""

from supac.plots.candidates import next_measurements
from supac.plots.canvas import drawing_is_possible
from supac.plots.fields import field
from supac.plots.fits import fit_bands, save_fit
from supac.plots.posterior import corner, marginals, save_posterior, trace, trace_2d
from supac.plots.predicted import prediction_bands
from supac.plots.search import convergence, predictions, weights
from supac.plots.sensitivities import sobol_indices

__all__ = [
    "convergence", "corner", "drawing_is_possible", "field", "fit_bands", "marginals",
    "next_measurements", "prediction_bands", "predictions", "save_fit", "save_posterior",
    "sobol_indices", "trace", "trace_2d", "weights",
]  # fmt: skip
