"""Provenance: dependence of prior, loss and temperature on the data, and certificates given."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from supac.codec import Spec
from supac.guarantee.seen import SeenData


@dataclass(frozen=True)
class Provenance:
    """Dependence of prior, loss and temperature on the data, and the certificates given."""

    prior_is_independent: bool = True
    """False if the prior was learnt on these data: then no bound holds."""
    temperatures_tried: float = 1
    """Number of temperatures compared on these data; infinite if one was optimised."""
    earlier: int = 0
    """Number of certificates of the same kind that were given on these data elsewhere."""
    loss_is_independent: bool = True
    """False if the loss, or the ceiling that caps it, was chosen after a result on these data."""
    given: tuple[str, ...] = ()
    """Names of the certificates that were given before, in order, each beginning with its kind."""
    data_change: str = ""
    """Change of the data, their noise, blocks or role after a result on them; "" if there is none.
    """
    test_change: str = ""
    """Change of the held-out data after a result, or that a search has seen them."""
    seen: tuple[SeenData, ...] = ()
    """Data of the results that this one begins from."""
    origin_change: str = ""
    """Reason why it is not known what an earlier search has seen; "" if there is none."""
    noise_is_estimated: bool = False
    """True if the noise was estimated from these data, so that the loss has seen them."""

    @property
    def refusal(self) -> str:
        """Reason why no certificate can be given, whatever is certified; "" if there is none."""
        if not self.prior_is_independent:
            return (
                "the prior was learnt on the same data, or was chosen or changed after a result on "
                "the same data, so no PAC-Bayes bound holds: learn it on one part of the data and "
                "certify with the other"
            )
        if self.noise_is_estimated:
            return (
                "the noise was estimated from these data, so the loss depends on them and no bound "
                "holds for it: give the noise as a number, or hold out data"
            )
        if not self.loss_is_independent:
            return (
                "the loss, or the ceiling that caps it, was chosen or changed after a result on "
                "the same data, so no bound holds for it: certify by the loss of the first "
                "search, or hold out data that it has not seen"
            )
        if self.data_change:
            return (
                f"{self.data_change} after a result on these data, so no bound holds: certify with "
                "the data as they were, to which new ones may be added, or with data that no "
                "result has seen"
            )
        if self.origin_change:
            return f"{self.origin_change}, or no bound is known to hold"
        return ""

    @property
    def test_refusal(self) -> str:
        """Reason why held-out data certify nothing; "" if there is none."""
        if self.origin_change:
            return f"{self.origin_change}, or no bound is known to hold"
        if not self.test_change:
            return ""
        return (
            f"{self.test_change}, so they certify nothing: hold out measurements that no result "
            "has seen, the same ones in all further searches"
        )

    def with_data(self, now: SeenData | None) -> Provenance:
        """Return the provenance of a result on these data, after all that was seen."""
        changes = [each.changes_until(now) for each in self.seen] if now is not None else []
        return replace(
            self,
            data_change=self.data_change or next((c.data for c in changes if c.data), ""),
            test_change=self.test_change or next((c.test for c in changes if c.test), ""),
        )

    @property
    def share(self) -> float:
        """Share of δ for this certificate: 0.95, 0.04, then a fifth of the one before."""
        return 0.95 if self.earlier == 0 else 0.2 * 0.2**self.earlier

    def before(self, name: str) -> Provenance:
        """Return the provenance of the certificate of this name, which may be one of those given.

        Those of its kind that came before it count as earlier. Ensembles and posteriors are
        counted apart: they are two statements, each at its own δ.
        """
        kind = name.partition(" ")[0]
        same = [each for each in self.given if each.partition(" ")[0] == kind]
        number = same.index(name) if name in same else len(same)
        return replace(self, earlier=self.earlier + number, given=())

    def after(self, name: str) -> Provenance:
        """Return the provenance after the certificate of this name was given."""
        return self if name in self.given else replace(self, given=(*self.given, name))

    def joined(self, other: Provenance) -> Provenance:
        """Return what holds if both are true."""
        return Provenance(
            self.prior_is_independent and other.prior_is_independent,
            max(self.temperatures_tried, other.temperatures_tried),
            max(self.earlier, other.earlier),
            self.loss_is_independent and other.loss_is_independent,
            tuple(dict.fromkeys((*self.given, *other.given))),
            self.data_change or other.data_change,
            self.test_change or other.test_change,
            tuple(dict.fromkeys((*self.seen, *other.seen))),
            self.origin_change or other.origin_change,
            self.noise_is_estimated or other.noise_is_estimated,
        )

    def to_spec(self) -> dict[str, Spec]:
        """Return the provenance as JSON, which has no infinity."""
        tried = self.temperatures_tried
        told: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **told,
            "temperatures_tried": tried if np.isfinite(tried) else None,
            "given": list(self.given),
            "seen": [each.to_spec() for each in self.seen],
        }

    @classmethod
    def from_spec(cls, spec: Spec) -> Provenance:
        """Invert `to_spec`."""
        tried = spec["temperatures_tried"]
        given = tuple(map(str, spec.get("given", ())))
        tried = np.inf if tried is None else tried
        seen = tuple(map(SeenData.from_spec, spec.get("seen", ())))
        return cls(**{**spec, "temperatures_tried": tried, "given": given, "seen": seen})
