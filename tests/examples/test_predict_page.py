"""docs/predict.md, its section on another operating condition: files written, commands run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import supac
from walks import follow

PAGE = Path(__file__).parents[2] / "docs" / "predict.md"


def test_another_operating_condition(tmp_path: Path) -> None:
    section = PAGE.read_text().partition("## Another operating condition\n")[2]
    (tmp_path / "page.md").write_text(section.partition("\n## ")[0])
    walk = follow(tmp_path / "page.md", tmp_path)
    said = walk.said["supac predict run.supac half.toml"]
    assert "Half the flow: 100 draws of the posterior" in said
    made = supac.read_prediction(tmp_path / "run.half.supac")
    assert made.title == "Half the flow"
    loss, inlet = made.x.T
    # Long after the start, inflow and loss balance: at the scenario's flow, not the calibrated one.
    balance = (0.25 * inlet + loss * 20.0) / (0.25 + loss)
    rest = (20.0 - balance) * np.exp(-(0.25 + loss) * 24.0)
    np.testing.assert_allclose(made.output("T")[:, -1], balance + rest, rtol=1e-12)
