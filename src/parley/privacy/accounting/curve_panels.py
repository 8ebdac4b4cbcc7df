"""Privacy curves of stable noise by panels, among them the dissertation's figures 4.1 and 4.6 to 4.11."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from parley.validate import Floats


@dataclass(frozen=True)
class Panel:
    """One axes: delta against eps, or eps against the scale of the noise."""

    title: str
    alphas: tuple[float, ...]
    over: Literal["epsilon", "scale"] = "epsilon"
    scale: float = 1.0
    delta: float = 1e-5
    compositions: tuple[int, ...] = (1,)
    sampling: tuple[float, ...] = (1.0,)


ALL, TWO = (2.0, 1.999, 1.95, 1.9), (2.0, 1.999)
FIGURES: dict[str, tuple[Panel, ...]] = {
    "4.1": (Panel("scale 1", ALL),),
    "4.6": (Panel("200 compositions, sampling 0.001, δ = 1e-5", ALL, "scale", compositions=(200,), sampling=(0.001,)),),
    "4.7": tuple(Panel(f"δ = {d:g}", TWO, "scale", delta=d) for d in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)),
    "4.8": tuple(
        Panel(f"{n} composition" + "s" * (n > 1), TWO, "scale", delta=1e-4, compositions=(n,)) for n in (1, 2, 4, 8, 16)
    ),
    "4.9": (Panel("once and composed with itself", TWO, compositions=(1, 2)),),
    "4.10": tuple(
        Panel(f"sampling {q:g}", TWO, "scale", delta=1e-4, sampling=(q,)) for q in (1.0, 0.5, 0.1, 0.05, 0.01)
    ),
    "4.11": (Panel("sampling 1 and 0.1", TWO, sampling=(1.0, 0.1)),),
}


def panel_curves(panel: Panel) -> list[dict[str, Any]]:
    """The curves of one panel, each as a dictionary for JSON."""
    # which figures there are, is said without them
    from parley.privacy.accounting.curves import Spread, delta_curve, epsilon_curve

    x: Floats = np.linspace(0, 6, 121) if panel.over == "epsilon" else np.geomspace(0.4, 8, 22)
    curves = []
    for alpha in panel.alphas:
        spreads: tuple[Spread, ...] = ("one",) if alpha == 2 else ("one", "many")
        for spread in spreads:
            for n in panel.compositions:
                for q in panel.sampling:
                    if panel.over == "epsilon":
                        y = delta_curve(alpha, panel.scale, x, n, q, spread)
                    else:
                        y = epsilon_curve(alpha, x, panel.delta, n, q, spread)
                    label = f"α = {alpha:g}" + (f", {n} times" if len(panel.compositions) > 1 else "")
                    label += f", sampling {q:g}" if len(panel.sampling) > 1 else ""
                    curves.append({"label": label, "alpha": alpha, "spread": spread, "x": x.tolist(), "y": y.tolist()})
    return curves
