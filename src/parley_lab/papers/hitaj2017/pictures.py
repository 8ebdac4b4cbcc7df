"""Drawn images, round by round, under every protection."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from parley.report.figures.colours import INK, MUTED
from parley_lab.papers.hitaj2017.exhibits import Look

IMAGES_PER_ROW = 6  # images of a round


def digits(found: Mapping[str, Sequence[Look]], target: int) -> Figure:
    """A row for each round that was looked at, a block of images for each protection; above them, how many images of
    the last round are taken for the victim's digit."""
    figure = Figure(figsize=(2.9 * len(found), 3.9), facecolor="white", layout="constrained")
    figure.suptitle(f"What is drawn of the victim's {target}", x=0.01, ha="left", color=INK, fontweight="bold")
    blocks = figure.subfigures(1, len(found), wspace=0.04, squeeze=False)
    for block, (name, looks) in zip(blocks[0], found.items(), strict=True):
        block.suptitle(f"{name}\ntaken for it at the end: {looks[-1].recognised:.0%}", color=INK, fontsize=8.5)
        places = block.subplots(len(looks), IMAGES_PER_ROW, squeeze=False)
        for row, look in zip(places, looks, strict=True):
            row[0].set_ylabel(str(look.number), color=MUTED, fontsize=8, rotation=0, ha="right", va="center")
            for axes, image in zip(row, look.images, strict=False):
                side = round(len(image) ** 0.5)
                axes.imshow(image.reshape(side, side), cmap="gray_r", vmin=-1, vmax=1, interpolation="nearest")
                axes.set_xticks([])
                axes.set_yticks([])
                axes.spines[:].set_visible(False)
    return figure
