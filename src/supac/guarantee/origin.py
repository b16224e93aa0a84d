"""The search that a further result begins from: what it has seen, and what was chosen for it.

A record has one, and so has each row of a table that `supac export` writes: a further search with
these runs is asked the same questions, whichever way they came.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any
from zlib import compress, decompressobj, error

import numpy as np

from supac.codec import Named, Spec, from_spec_or_name, to_spec
from supac.guarantee.provenance import Provenance
from supac.guarantee.seen import SeenData
from supac.problem.bounds import Bound, Declared, fixed_temperature
from supac.problem.composite import loss_and_data
from supac.problem.losses import as_residual_loss
from supac.problem.observation import as_observation_loss

COLUMN = "origin"
"""Column of exported tables with the origin of their runs."""
UNKNOWN_LOSS = Named("a loss")
"""Loss of a result file of version 0.1, which does not say which one."""
_MARK = "supac"
_WIDTH = 20_000  # characters of a cell, of which spreadsheets keep 32,767
_MOST = 100_000_000  # characters of an origin
_LOST = (
    "what the search behind {} has seen is not known, since some of its first rows were removed or "
    "its column `origin` was changed: export it anew, and keep these"
)


@dataclass(frozen=True)
class Origin:
    """Data, prior, loss and temperature of a search, and the certificates of its results."""

    priors: tuple[str, ...]
    """Digests of the parameters and of the latent prior, either of which may be given again."""
    posterior: str
    """Digest of the posterior of a search that has not ended; "" otherwise."""
    ended: bool
    """True if there is a result, after which anything may have been chosen."""
    loss: Spec
    """Loss of a residual, or its name."""
    data: str
    """Digest of the data, of whatever class."""
    seen: SeenData | None
    """Measurements of the data and of the test; None if they are not known."""
    temperature: float | None
    """Temperature that the bound fixes."""
    ceiling: float | None
    n: int | None
    provenance: Provenance

    @classmethod
    def of(
        cls,
        *,
        prior: object,
        latent: object,
        posterior: object,
        ended: bool,
        loss: object,
        data: object,
        seen: SeenData | None,
        bound: Bound | None,
        provenance: Provenance,
    ) -> Origin:
        """Return the origin of a search with these parts."""
        return cls(
            priors=(digest(prior), digest(latent)),
            posterior="" if posterior is None or ended else digest(posterior),
            ended=ended,
            loss=_of_each(loss),
            data=digest(data),
            seen=seen,
            temperature=None if bound is None else fixed_temperature(bound),
            ceiling=Declared.by(bound).ceiling,
            n=Declared.by(bound).n,
            provenance=provenance,
        )

    def shares_data(self, risk: object) -> bool:
        """Return True if some of the measurements are the same, or the data where none is known."""
        now = SeenData.of(risk)
        if self.seen is not None and now is not None:
            return self.seen.changes_until(now).shared
        return self.data == digest(loss_and_data(risk)["data"])

    def has_risk(self, risk: object) -> bool:
        """Return True if a run has the same risk here: if loss and data are the same."""
        parts = loss_and_data(risk)
        return self.data == digest(parts["data"]) and self._same_loss(parts["loss"], None)

    def next_provenance(
        self, prior: object = None, bound: Bound | None = None, risk: object = None
    ) -> Provenance:
        """Return the provenance of a further result, with another prior, bound, loss or data.

        What is chosen after a result may depend on its data, and data that were changed after it
        are others than those that nobody had seen. The question is asked of every result that this
        one begins from; data that share no measurement with them begin anew.
        """
        told, own, now = self.provenance, self.seen, SeenData.of(risk)
        if own is not None and now is not None and not own.changes_until(now).shared:
            earlier = any(each.changes_until(now).shared for each in told.seen)
            every = tuple(dict.fromkeys((*told.seen, own)))
            return Provenance(not earlier, seen=every).with_data(now)
        if prior is not None and digest(prior) not in self.priors:
            told = replace(told, prior_is_independent=False)
        if bound is not None and fixed_temperature(bound) not in (None, self.temperature):
            told = replace(told, temperatures_tried=np.inf)
        if risk is not None and not self._same_loss(loss_and_data(risk)["loss"], bound):
            told = replace(told, loss_is_independent=False)
        if own is None:
            return told
        told = replace(told, seen=tuple(dict.fromkeys((*told.seen, own)))).with_data(now)
        if now is not None and self._fewer_dependent(now, bound):
            words = "the number of independent data was raised"
            told = replace(told, data_change=told.data_change or words)
        return told

    def provenance_of(
        self, prior: object, latent: object, bound: Bound, risk: object
    ) -> Provenance:
        """Return what a search with these runs, or in place of this one, must know of it.

        One that has not ended has no result yet, but a posterior to learn a prior from.
        """
        shared = self.shares_data(risk)
        if not shared and SeenData.of(risk) is None:
            return Provenance()
        if self.ended:
            return self.next_provenance(prior, bound, risk)
        learnt = shared and digest(latent) == self.posterior
        return self.provenance.joined(Provenance(prior_is_independent=not learnt))

    def _same_loss(self, loss: object, bound: Bound | None) -> bool:
        """Return True if loss and ceiling are those of the search, as far as they are known."""
        kept = from_spec_or_name(self.loss)
        if isinstance(kept, Named):  # only its name is known, or not even that
            return kept in (UNKNOWN_LOSS, from_spec_or_name(to_spec(loss)))
        residual = as_residual_loss(loss)
        capped = residual is not None and residual.ceiling is None
        further = Declared.by(bound).ceiling
        changed = capped and None not in (self.ceiling, further) and self.ceiling != further
        return self.loss == _of_each(loss) and not changed

    def _fewer_dependent(self, now: SeenData, bound: Bound | None) -> bool:
        """Return True if a larger share of the data than before is said to be independent."""
        further = Declared.by(bound).n
        assert self.seen is not None
        then, data = self.seen.training, now.training
        if self.n is None or further is None or then is None or data is None:
            return False
        if then.blocks is not None:
            return False
        before, after = self.n / then.measured, further / data.measured
        return bool(before < 1.0 and after > before * (1.0 + 1e-9))

    def to_cells(self, rows: int) -> list[str]:
        """Return a cell for each of so many rows of a table: all of it in the first ones."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        told |= {"seen": None if self.seen is None else self.seen.to_spec()}
        told |= {"provenance": self.provenance.to_spec()}
        text = b64encode(compress(json.dumps(told).encode(), 9)).decode()
        mark = f"{_MARK} {sha256(text.encode()).hexdigest()[:8]}"
        parts = [text[i : i + _WIDTH] for i in range(0, len(text), _WIDTH)]
        cells = [f"{mark} {i + 1}/{len(parts)} {part}" for i, part in enumerate(parts)]
        return [*cells, *[mark] * (rows - len(cells))][:rows]

    @classmethod
    def of_cells(cls, cells: Sequence[str], name: str) -> tuple[Origin | None, Provenance]:
        """Return the origin that `to_cells` wrote, if any, and what else a search must know."""
        marked = [each.split(" ") for each in cells if each.startswith(f"{_MARK} ")]
        parts = {each[2]: each for each in marked if len(each) == 4}
        if not marked:
            return None, Provenance()
        lost = Provenance(origin_change=_LOST.format(name))
        if len({each[1] for each in marked}) > 1:
            return None, lost
        try:
            count = int(next(iter(parts)).split("/")[1])
            text = "".join(parts[f"{i + 1}/{count}"][3] for i in range(count))
            if sha256(text.encode()).hexdigest()[:8] != marked[0][1]:
                return None, lost
            plain = decompressobj().decompress(b64decode(text), _MOST)
            return cls._of_spec(json.loads(plain)), Provenance()
        except (StopIteration, KeyError, ValueError, TypeError, IndexError, error):
            return None, lost

    @classmethod
    def _of_spec(cls, told: dict[str, Any]) -> Origin:
        seen = None if told["seen"] is None else SeenData.from_spec(told["seen"])
        changed = {"priors": tuple(told["priors"]), "seen": seen}
        return cls(**{**told, **changed, "provenance": Provenance.from_spec(told["provenance"])})


def digest(value: object) -> str:
    """Return a digest by which a value is known again; NaN equals NaN."""
    return sha256(json.dumps(to_spec(value), sort_keys=True).encode()).hexdigest()[:16]


def _of_each(loss: object) -> Spec:
    """Return the loss of a residual as JSON, without the data that a loss of columns has."""
    observed = as_observation_loss(loss)
    own = None if observed is None else observed.residual_loss
    return to_spec(loss if own is None else own)
