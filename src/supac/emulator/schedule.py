"""When the hyperparameters of an emulator are fitted, and by how many steps."""

from __future__ import annotations

from dataclasses import dataclass

from supac.emulator.tuning import EmulatorTuning, ScheduleTuning
from supac.surrogate.memory import Memory
from supac.surrogate.regime import Regime


@dataclass(frozen=True)
class Schedule:
    """Hold the steps of L-BFGS that the fits of one round may take."""

    usual: int
    """Steps from the hyperparameters of the last round, or from the defaults if there are none."""
    after_labels: int
    """Further steps where labels of runs have changed."""
    anew: int
    """Steps from the defaults, for a rival of the emulator; 0 if none is due."""
    averages: bool
    """True if the emulator is averaged with others."""
    others: int
    """Steps of these from the defaults; 0 if they keep their hyperparameters."""
    fitted: int
    """Number of runs at the last fit, this one included."""
    restarted: int
    """Number of runs at the last fit from the defaults."""

    @classmethod
    def of(
        cls,
        memory: Memory | None,
        runs: int,
        dim: int,
        tuning: EmulatorTuning,
        *,
        several: bool,
        anew: bool,
    ) -> Schedule:
        """Plan the fits to a number of runs of `dim` parameters.

        `several` is True where emulators are averaged as long as there are few runs, `anew` if
        something has happened that the last model did not expect.
        """
        rule, averages = tuning.schedule, several and runs <= tuning.average.runs
        defaults = rule.first_of_several if several else rule.first
        if memory is None:
            others = rule.first_of_several
            return cls(defaults, 0, 0, averages, others, fitted=runs, restarted=runs)
        fitted = runs if _is_news(memory.fitted, runs, dim, rule) else memory.fitted
        due = fitted == runs  # also of a search that finds another posterior from the same runs
        well_known = runs > rule.well_known
        usual = (rule.few if well_known else rule.usual) if due else 0
        grown = runs >= rule.anew * memory.restarted
        restarts = not well_known and ((averages and due) or grown or anew)
        return cls(
            usual,
            min(usual, rule.few),
            defaults if restarts else 0,
            averages,
            rule.first_of_several if due else 0,
            fitted=fitted,
            restarted=runs if restarts else memory.restarted,
        )


def _is_news(before: int, now: int, dim: int, tuning: ScheduleTuning) -> bool:
    """Return True if the hyperparameters are worth fitting anew after `before` runs.

    Those of many parameters are as soon as there are more runs than a linear model has unknowns:
    then it shows whether the outputs are linear.
    """
    confirmed = tuning.confirmed and Regime.of(dim).is_many and before <= dim + 1 < now
    return confirmed or now >= tuning.news * before
