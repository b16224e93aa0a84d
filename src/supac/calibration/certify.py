"""Fresh runs of a posterior, and the certificate that they give."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray, whole
from supac.codec import fingerprint
from supac.families import Distribution
from supac.guarantee.certificate import Certificate, CertificateError, certify_draws
from supac.problem.bounds import Bound
from supac.problem.parameters import Parameters
from supac.running import open_pool
from supac.running.evaluate import Evaluator, simulator_of
from supac.running.interrupt import Interrupt, Interrupted
from supac.running.progress import ProgressBar

_STREAM = 0xCE27  # of random numbers that no search uses
_KL_DRAWS = 100_000


def certify(  # noqa: PLR0913 - where and how the runs are made, as in `minimize`
    posterior: Distribution,
    prior: Distribution | Parameters,
    risk: Callable[[FloatArray], Any],
    bound: Bound,
    *,
    n: int,
    delta: float = 0.05,
    draws: int = 1_000,
    vectorized: bool = False,
    executor: Executor | int | str | None = None,
    timeout: float | None = None,
    retries: int = 2,
    progress: bool | None = None,
    seed: int = 0,
    **options: Any,
) -> Certificate:
    """Run `draws` fresh draws of the posterior, and say what they guarantee.

    `n` is the number of independent data behind each risk; a failed run counts as the ceiling. The
    other options are those of `certify_draws`.
    """
    parameters = prior if isinstance(prior, Parameters) else None
    latent = prior.prior if isinstance(prior, Parameters) else prior
    # Not the draws with which the search has compared posteriors, for which it may have a liking.
    draws_of_kl = [whole(seed, "seed", least=0), _STREAM, 1]
    kl = posterior.divergence(latent, draws_of_kl)
    if 0.0 < kl.spread < np.inf:
        kl = posterior.divergence(latent, draws_of_kl, _KL_DRAWS)
    if not np.isfinite(kl.spread):
        raise CertificateError(
            f"KL from a member of {posterior.family} to this prior is only known from draws that "
            "may be arbitrarily large: no certificate can rest on it. For Gaussians, mixtures of "
            "them and Student-t with more than two degrees of freedom any Gaussian prior will do"
        )
    rng = np.random.default_rng([whole(seed, "seed", least=0), _STREAM])
    x = posterior.sample(whole(draws, "draws", least=1), rng)
    simulator = simulator_of(risk, vectorized=vectorized, parameters=parameters)
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        flight = None
        if executor is not None or timeout is not None:
            retries = whole(retries, "retries", least=0)
            flight = open_pool(executor, [simulator], timeout=timeout, retries=retries)
            stack.callback(flight.close)
        bar = stack.enter_context(ProgressBar(draws, progress))
        evaluator = Evaluator(
            risk,
            simulator,
            parameters=parameters,
            raising=False,
            flight=flight,
            interrupt=interrupt,
            watch=bar.watch,
        )
        try:
            outcome = evaluator.batch(x)
        except Interrupted as error:
            raise KeyboardInterrupt from error
    failed = [outcome.ids.index(run.id) for run in outcome.failures]
    outcome.risk[failed] = np.nan  # whatever the loss makes of them: they count as the ceiling
    certificate = certify_draws(outcome.risk, kl, bound, n=n, delta=delta, **options)
    return replace(certificate, fingerprint=fingerprint(posterior, latent))
