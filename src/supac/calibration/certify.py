"""Certify a posterior, or parameter sets drawn from it, with fresh runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, Unpack

import numpy as np

from supac.arrays import FloatArray, positive, whole
from supac.calibration.fresh import Path, run_fresh
from supac.calibration.old_keywords import OldKeywords, with_old
from supac.codec import fingerprint, to_spec
from supac.families import Density, Distribution, Divergence, as_distribution
from supac.guarantee.basis import Basis, CertificateError, basis_of, losses_are_known
from supac.guarantee.certificate import Certificate, Losses, Subject
from supac.guarantee.dependence import warning_of_dependence, warning_of_duplicates
from supac.guarantee.ensemble import STREAM, ensemble_certificate, fresh_draws
from supac.guarantee.gate import admitted, bound_to_certify, check_independence
from supac.guarantee.held_out import held_out_certificate
from supac.guarantee.posterior import posterior_certificate
from supac.guarantee.provenance import Provenance
from supac.problem import Bound, Composite, Parameters
from supac.problem.bounds import Catoni, Declared
from supac.problem.columns import as_column_loss
from supac.problem.composite import as_composite, loss_and_data, parts_of
from supac.problem.data import as_observations
from supac.problem.problem import latent_of, parameters_of
from supac.record.run import Run
from supac.record.store.store import add_certificate, read_provenance
from supac.running.execution import Execution

_KL_DRAWS = 100_000
_NO_UNITS = ("a residual in units: the noise of a column is a parameter, and each set has its own",)
_OLD = ("monte_carlo", "prior_is_independent", "temperatures_tried", "ceiling")


def certify(
    posterior: Distribution,
    prior: Distribution | Parameters,
    risk: Callable[[FloatArray], Any],
    bound: Bound,
    *,
    n: int | None = None,
    delta: float | None = None,
    draws: int = 1_000,
    precision: float | None = None,
    subject: Subject = "posterior",
    provenance: Provenance = Provenance(),
    execution: Execution | Any = None,
    store: Path | None = None,
    seed: int = 0,
    **old: Unpack[OldKeywords],
) -> Certificate:
    """Run the simulator at fresh draws of the posterior, and certify its mean risk.

    Certificates are counted in `store`, and by a `Result` or a `Record`. The same call again, or of
    a posterior with more draws, is the same one; any other pays for those before it.

    Parameters
    ----------
    posterior, prior, risk, bound, execution, store, provenance
        As in `minimize`; a failed run counts as the ceiling. The store may be that of the search;
        an interrupted certificate continues from it.
    n, delta
        Number of independent data of each risk, and probability that the certificate fails; by
        default the bound's, or else all that were measured and 0.05.
    draws, seed
        Largest number of fresh runs: fewer certify a higher risk of the posterior. Their seed.
    precision
        Stop earlier, when all further runs together would lower the certificate of a posterior by
        less than this. Ctrl-C stops too, and certifies with the runs made until then.
    subject
        "posterior": the mean over all of it; "ensemble": over just these draws, few and tighter.

    """
    where, rest = with_old(execution, old, *_OLD)
    ceiling, monte_carlo = rest.pop("ceiling", None), rest.pop("monte_carlo", 0.2)
    told = replace(provenance, **rest)
    if store is not None:
        told = told.joined(read_provenance(store))
    parameters, latent = parameters_of(prior), latent_of(prior)
    about = Certifier(posterior, latent, risk, bound, n, delta, ceiling, told)
    about.check(subject)
    x, where = fresh_draws(posterior, draws, seed), replace(where, on_failure="drop")
    run = partial(run_fresh, x, risk, where, "certificate", store=store, parameters=parameters)
    if subject == "ensemble":
        made = about.ensemble(_some_ok(run()), 1.0)
    else:
        kl = _divergence(posterior, latent, seed)
        certified = partial(about.whole, kl=kl, monte_carlo=monte_carlo)
        made = certified(_some_ok(run(enough=_precise_enough(certified, precision), some=True)))
    if store is not None:
        add_certificate(store, made.name)
    return made


def _precise_enough(
    certified: Callable[[Sequence[Run]], Certificate], precision: float | None
) -> Callable[[Sequence[Run]], bool] | None:
    """Return whether further runs would gain less than `precision`; None if it is not given."""
    if precision is None:
        return None
    least = positive(precision, "precision")

    def enough(runs: Sequence[Run]) -> bool:
        now = certified(runs)
        return now.value - (now.without_draws or 0.0) < least

    return enough


def points_of(runs: Sequence[Run]) -> FloatArray:
    """Return the latent points of runs: (n, dim)."""
    return np.array([run.x for run in runs])


def _some_ok(runs: list[Run]) -> list[Run]:
    """Raise CertificateError if all runs failed."""
    if not any(run.ok for run in runs):
        raise CertificateError(f"all {len(runs)} runs failed, the first with: {runs[0].message}")
    return runs


@dataclass(frozen=True, eq=False)
class Certifier:
    """Make certificates of fresh runs of a posterior."""

    posterior: Distribution
    prior: Density
    risk: object
    bound: Bound
    n: int | None = None
    """Number of independent data; by default the bound's, or all that were measured."""
    delta: float | None = None
    """By default the bound's, or else 0.05."""
    ceiling: float | None = None
    provenance: Provenance = Provenance()

    def check(self, subject: Subject = "posterior") -> None:
        """Raise CertificateError before the first run is made, if it can be told by then."""
        if subject not in ("posterior", "ensemble"):
            raise ValueError(f'subject must be "posterior" or "ensemble", not {subject!r}')
        own = as_composite(self.risk)
        if own is not None and own.data is None and self.n is None:
            return  # the number of residuals is not known yet
        basis = basis_of(self.risk, self.bound, n=self.n, ceiling=self.ceiling, measured=self.n)
        chosen, of_draws = self._chosen(basis), subject == "ensemble"
        if losses_are_known(self.risk) and type(chosen).betting:
            check_independence(self.provenance)
        else:
            admitted(chosen, basis, self.probability, self.provenance, of_draws=of_draws)

    def whole(self, runs: Sequence[Run], kl: Divergence, monte_carlo: float) -> Certificate:
        """Certify the mean over the posterior."""
        losses = ComparedLosses.of(runs, self.risk, self.bound, n=self.n, ceiling=self.ceiling)
        name, before = self._named("posterior", runs, monte_carlo)
        seen = self.provenance.before(name)
        made = posterior_certificate(
            losses,
            kl,
            self._chosen(losses.basis),
            delta=self.probability,
            monte_carlo=monte_carlo,
            share=seen.share,
            provenance=seen,
            given_by_seeger=before,
        )
        return self._finished(made, losses, name)

    def ensemble(self, runs: Sequence[Run], share: float) -> Certificate:
        """Certify the mean over the parameter sets of these runs; `share` as in validation."""
        if as_distribution(self.prior) is None and not getattr(self.prior, "normalised", False):
            raise CertificateError(
                f"{self.prior!r} is a prior of your own: a certificate needs its density, not a "
                "multiple of it. If it integrates to 1, give its class the attribute "
                "normalised = True"
            )
        losses = ComparedLosses.of(runs, self.risk, self.bound, n=self.n, ceiling=self.ceiling)
        x, (name, before) = points_of(runs), self._named("ensemble", runs)
        made = ensemble_certificate(
            losses,
            self.posterior.log_prob(x) - self.prior.log_prob(x),
            self._chosen(losses.basis),
            delta=self.probability,
            selection=share,
            provenance=self.provenance.before(name),
            given_by_seeger=before,
        )
        return self._finished(made, losses, name)

    def held_out(self, runs: Sequence[Run], risk: Composite) -> Certificate:
        """Certify the same parameter sets by a risk whose data the search has not seen."""
        if self.provenance.test_refusal:
            raise CertificateError(self.provenance.test_refusal)
        # Of the bound only the ceiling: its n counts the training data.
        capped = Catoni(1.0, ceiling=Declared.by(self.bound).ceiling or 1.0)
        own = basis_of(self.risk, self.bound, n=self.n, ceiling=self.ceiling)
        if own.blocks.startswith("stretches"):
            raise CertificateError(
                f"n = {len(own.weights)} says that the data are dependent: give blocks of rows, "
                "which say it of the held-out ones too"
            )
        losses = ComparedLosses.of(runs, risk, capped, n=None, compared=False)
        name, before = self._named("ensemble", runs)
        seen = self.provenance.before(name)
        made = held_out_certificate(
            losses, delta=self.probability, provenance=seen, given_by_chernoff=before
        )
        return self._finished(made, losses, name)

    def name(self, subject: Subject, runs: Sequence[Run], *options: float) -> str:
        """Return a name by which the same certificate is known in the next process.

        Of a posterior only the first of its draws counts: going on is free.
        """
        return self._named(subject, runs, *options)[0]

    def _named(self, subject: Subject, runs: Sequence[Run], *options: float) -> tuple[str, bool]:
        """Return the name, and True if a version that did not bet gave the certificate.

        Where losses are bet on, the statement is another one, with another name; but what was
        given before keeps its name, its number and its theorem.
        """
        before = self._name(subject, runs, *options)
        if before in self.provenance.given:
            return before, True
        if not (losses_are_known(self.risk) and type(self.bound).betting):
            return before, False
        return self._name(subject, runs, *options, "betting"), False

    def _name(self, subject: Subject, runs: Sequence[Run], *options: float | str) -> str:
        drawn = points_of(runs[:1] if subject == "posterior" else runs)
        of = (self.posterior, self.prior, self.bound, self.n, self.probability, self.ceiling)
        parts = (*of, drawn, *loss_and_data(self.risk).values(), *options)
        words = json.dumps([to_spec(each) for each in parts])
        return f"{subject} {sha256(words.encode()).hexdigest()[:16]}"

    @property
    def probability(self) -> float:
        """Probability that a certificate fails."""
        known = self.delta if self.delta is not None else Declared.by(self.bound).delta
        return 0.05 if known is None else float(known)

    def _chosen(self, basis: Basis) -> Bound:
        """Return the bound as given for n data, else one that holds for these data."""
        return self.bound if self.n is not None else bound_to_certify(self.bound, basis)

    def _finished(self, made: Certificate, losses: ComparedLosses, name: str) -> Certificate:
        told = losses.explained(made)
        return replace(told, name=name, fingerprint=fingerprint(self.posterior, self.prior))


@dataclass(frozen=True, eq=False)
class ComparedLosses(Losses):
    """Losses of fresh runs, with the data that their outputs were compared with."""

    data: object = None
    residuals: FloatArray | None = None
    """Of the successful runs: (k, measured)."""
    noise_is_parameter: bool = False
    """True if the noise of a column is a parameter, so that it differs between the sets."""

    @classmethod
    def of(
        cls,
        runs: Sequence[Run],
        risk: object,
        bound: Bound,
        *,
        n: int | None,
        ceiling: float | None = None,
        compared: bool = True,
    ) -> ComparedLosses:
        """Compare the outputs of the runs with the data; CertificateError if no bound holds."""
        risks = np.array([run.risk if run.ok else np.nan for run in runs])
        good = np.isfinite(risks)
        outputs = [run.outputs for run in runs if run.ok and run.outputs is not None]
        every = residuals = None
        own = as_composite(risk)
        if own is not None and outputs:
            try:
                residuals = own.compared(np.array(outputs))
            except ValueError as error:  # such as the logarithm of a negative output
                raise CertificateError(f"the outputs cannot be compared: {error}") from error
            every = np.full((len(runs), residuals.shape[1]), np.nan)
            every[good] = residuals
        measured = None if residuals is None else residuals.shape[1]
        basis = replace(
            basis_of(risk, bound, n=n, ceiling=ceiling, measured=measured), compared=compared
        )
        data = parts_of(risk).data
        means, failed = basis.means(risks, every), int((~good).sum())
        columns = as_column_loss(parts_of(risk).loss)
        noisy = columns is not None and bool((columns.levels >= 0).any())
        bets = basis.bets(risks, every)
        return cls(means, basis, failed, bets, data, residuals, noisy)

    def explained(self, certificate: Certificate) -> Certificate:
        """Add the limit in the users' units, and a warning where the data seem dependent."""
        known = getattr(self.data, "noise_known", True) and not self.noise_is_parameter
        units = getattr(self.data, "in_units", None) if known else None  # else no noise is known
        noises = getattr(self.data, "noises", None)
        residual = None if units is None else self.basis.residual(certificate.value, noises)
        series = getattr(self.data, "series", None)
        warnings: tuple[str, ...] = ()
        if series is not None and self.residuals is not None and not self.basis.sequential:
            middle = np.median(self.residuals, axis=0)
            warnings = warning_of_dependence(series(middle), certificate.n)
        observations = as_observations(self.data)
        if observations is not None:
            warnings += warning_of_duplicates(observations)
        capped = self.basis.capped and residual is not None
        return replace(
            certificate,
            residual=residual,
            cap=self.basis.residual(self.basis.ceiling, noises) if capped else None,
            in_units=units(residual) if units is not None and residual is not None else {},
            warnings=warnings,
            not_guaranteed=certificate.not_guaranteed
            + (_NO_UNITS if self.noise_is_parameter else ()),
        )


def _divergence(posterior: Distribution, prior: Distribution, seed: int) -> Any:
    """Compute KL(posterior, prior); CertificateError if it has no upper limit."""
    # Not the draws of the search, to which the posterior may be fitted.
    draws = [whole(seed, "seed", least=0), STREAM, 1]
    kl = posterior.divergence(prior, draws)
    if 0.0 < kl.spread < np.inf:
        kl = posterior.divergence(prior, draws, _KL_DRAWS)
    if not np.isfinite(kl.spread):
        raise CertificateError(
            f"KL from a member of {posterior.family} to this prior is only known from draws that "
            "may be arbitrarily large: no certificate can rest on it. For Gaussians, mixtures of "
            "them and Student-t with more than two degrees of freedom any Gaussian prior will do; "
            'for any posterior, subject="ensemble" needs no KL'
        )
    return kl
