"""Draw the pictures of docs/gallery.md from its own code: python docs/figures/gallery.py."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot
from PIL import Image

DOCS = Path(__file__).parents[1]
_STEP = r"^```python\n(.*?)^```|^!\[[^\]]*\]\(([^)]+\.png)\)"


def draw() -> dict[str, tuple[int, int]]:
    """Run the page, save the figure of the block before each picture, and return their sizes."""
    session: dict[str, object] = {"__name__": "__main__"}
    page = (DOCS / "gallery.md").read_text()
    sizes = {}
    for block, name in re.findall(_STEP, page, flags=re.M | re.S):
        if block:
            exec(compile(block, "gallery.md", "exec"), session)
            continue
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        pyplot.gcf().savefig(path, dpi=90)
        pyplot.close("all")
        with Image.open(path) as picture:
            few = picture.convert("RGB").quantize(64, method=Image.Quantize.MAXCOVERAGE, kmeans=3)
            few.save(path, optimize=True)
            sizes[name] = picture.size
    return sizes


if __name__ == "__main__":
    mpl.use("Agg")
    for drawn, size in draw().items():
        print(f"wrote docs/{drawn}, {size[0]} × {size[1]}")
