"""A program as simulator, two runs at a time, and a store: run the script again to go on."""

import sys
from pathlib import Path

import numpy as np

import supac
from supac import marginals

# Any executable would do; this one is a script that is written here so that the example is whole.
PROGRAM = """
import json

x = json.load(open("input.json"))  # {"height": 1.2, "drag": 0.4}
speed, time, fallen, step = 0.0, 0.0, 0.0, 1e-3
while fallen < x["height"]:
    speed += step * (9.81 - x["drag"] * speed)
    fallen += step * speed
    time += step
json.dump({"seconds": [time], "speed": [speed]}, open("output.json", "w"))
"""
MEASURED = np.array([0.58, 4.6])  # seconds until a ball landed, and its speed
NOISE = np.array([0.02, 0.2])

script = Path("fall.py").absolute()
script.write_text(PROGRAM)
program = supac.Program([sys.executable, script], key=["seconds", "speed"])
welsch = supac.Welsch(3.0)


def loss(outputs):
    """(n, 2) outputs of the program → n risks."""
    return welsch((outputs - MEASURED) / NOISE)


parameters = supac.Parameters(
    {
        "height": marginals.Uniform(0.5, 3.0, unit="m"),
        "drag": marginals.HalfNormal(scale=1.0, unit="1/s"),
    }
)
if __name__ == "__main__":
    result = supac.minimize(
        supac.Composite(program, loss),
        parameters,
        supac.Catoni(temperature=0.02),
        budget=40,
        execution=supac.Execution(2, timeout=60.0, on_failure="penalise"),
        store="fall.supac",
    )
    print(result)
    for name, column in zip(parameters.names, result.sample(2000, 0).T, strict=True):
        print(f"{name:6} {np.median(column):.2f} ± {np.std(column):.2f}")
