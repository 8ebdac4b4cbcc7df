"""Z's chapters 3 and 4 as far as they are accounting: stable noise's loss, its eps in one coordinate and in all, and
the best alpha.

`one`: the exact eps of a difference in a single coordinate, Z's figure. `all`: the sound one, for differences in any
number of coordinates (kappa Delta_1/scale where pure, `stable_epsilon` at a delta).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gamma

from parley.privacy.accounting.releases import fisher_information
from parley.privacy.events import Adjacency
from parley.privacy.mechanisms.gaussian import gaussian_ratio
from parley.privacy.mechanisms.stable import cauchy_epsilon
from parley.privacy.mechanisms.stable_law import distortion, log_pdf, score_bound
from parley.validate import Floats
from parley_lab.papers.zawacki2024.network_epsilons import row_epsilons
from parley_lab.papers.zawacki2024.published_networks import PUBLISHED_TABLES

# table 3.1
PUBLISHED_DISTORTIONS = {
    2.0: 1.1284,
    1.999: 1.1289,
    1.99: 1.1340,
    1.95: 1.1576,
    1.9: 1.1903,
    1.8: 1.2687,
    1.0: math.inf,
}
CURVE_ALPHAS = (2.0, 1.999, 1.99, 1.9, 1.5, 1.0)
SCALES = np.geomspace(0.05, 20, 41)
TRIED_ALPHAS = np.array([1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 1.95, 1.99, 1.999, 1.9999])
DELTA = 1e-5
NETWORK_TABLE = PUBLISHED_TABLES["4.3"]  # of figures 4.5 and 4.12


@dataclass(frozen=True, eq=False)
class Curve:
    """One line; `sound`: whether its eps holds in every direction, where it is an eps."""

    label: str
    x: Floats
    y: Floats
    sound: bool = False


@dataclass(frozen=True, eq=False)
class Chart:
    """One figure of the dissertation."""

    title: str
    across: str
    up: str
    curves: tuple[Curve, ...]
    logarithmic: bool = False


def one_epsilon(alpha: float, scale: float) -> float:
    """The exact pure eps of one coordinate that moves by 1: the largest loss.

    >>> abs(one_epsilon(1.0, 1.0) - cauchy_epsilon(1.0, 1.0)) < 1e-8
    True
    """
    if alpha == 1:
        return cauchy_epsilon(scale, 1.0)
    if alpha == 2:
        return math.inf
    x = 0.5 + scale * np.sinh(
        np.linspace(0, math.asinh(1e3 + 2 / scale), 4001)
    )  # past the middle of one law, where the loss has its top
    top = int(np.argmax(loss(x, alpha, scale)))
    return float(loss(np.linspace(x[max(top - 1, 0)], x[min(top + 1, 4000)], 1001), alpha, scale).max())


def all_epsilon(alpha: float, scale: float) -> float:
    """The pure eps of any number of coordinates that move by 1 together, in L1."""
    return score_bound(alpha) / scale


def loss(x: Floats, alpha: float, scale: float) -> Floats:
    """ln p(x - 1/2)/p(x + 1/2): odd in x."""
    return np.asarray(log_pdf((x - 0.5) / scale, alpha) - log_pdf((x + 0.5) / scale, alpha))


def chart(name: str) -> Chart:
    """Figure 3.4, 3.5, 3.6, 3.7 or 3.8."""
    x = np.linspace(-15, 15, 301)
    if name == "3.4":
        curves = [Curve(f"α = {alpha:g}", x, loss(x, alpha, 1.0)) for alpha in CURVE_ALPHAS]
        return Chart("Privacy loss of one coordinate, scale 1", "answer", "loss", tuple(curves))
    if name == "3.5":
        curves = [Curve(f"scale {scale:g}", x, loss(x, 1.5, scale)) for scale in (0.5, 1.0, 2.0, 4.0)]
        return Chart("Privacy loss of one coordinate, α = 1.5", "answer", "loss", tuple(curves))
    if name == "3.6":
        curves = [Curve("Laplace", SCALES, 1 / SCALES)]
        for alpha in (1.0, 1.5, 1.9):
            curves.append(Curve(f"α = {alpha:g}", SCALES, np.array([one_epsilon(alpha, float(s)) for s in SCALES])))
            curves.append(
                Curve(f"α = {alpha:g}, all coordinates", SCALES, all_epsilon(alpha, 1.0) / SCALES, sound=True)
            )
        return Chart(
            "Pure ε by the noise's scale", "scale", f"ε ({Adjacency.REPLACE_ONE})", tuple(curves), logarithmic=True
        )
    if name == "3.7":
        exact = np.array([cauchy_epsilon(float(s), 1.0) for s in SCALES])
        small = SCALES[SCALES < 0.9]
        lines = (
            Curve("exact, one coordinate", SCALES, exact),
            Curve("all coordinates", SCALES, 1 / SCALES, sound=True),  # the Laplace mechanism's, too
            Curve("2 ln(√2/scale), as printed", small, 2 * np.log(math.sqrt(2) / small)),
            Curve("2 ln(1/scale), mended", small, 2 * np.log(1 / small)),
        )
        return Chart(
            "Cauchy noise: exact and approximate", "scale", f"ε ({Adjacency.REPLACE_ONE})", lines, logarithmic=True
        )
    alphas = np.linspace(1.02, 2, 99)
    return Chart("Γ(1 − 1/α)", "α", "Γ", (Curve("", alphas, np.asarray(gamma(1 - 1 / alphas))),))


def distortions() -> list[dict[str, float]]:
    """Table 3.1: E|Y| at scale 1, printed and computed."""
    return [
        {"alpha": alpha, "published": printed, "computed": distortion(alpha)}
        for alpha, printed in PUBLISHED_DISTORTIONS.items()
    ]


def trained() -> list[dict[str, float | None]]:
    """Figures 4.5 and 4.12 at the points that table 4.3 prints: accuracy is Z's; E|Y| and eps are computed, eps in the
    readings of `network_epsilons`, for all steps of 200 epochs. (Nothing is trained here.)"""
    rows = []
    for row in NETWORK_TABLE.rows:
        epsilons = row_epsilons(NETWORK_TABLE, row.alpha, row.scale)
        rows.append({**vars(row), **vars(epsilons), "computed_distortion": distortion(row.alpha, row.scale)})
    return rows


@dataclass(frozen=True, eq=False)
class BestAlpha:
    """At one eps: E|Y| of one number for each of `TRIED_ALPHAS`, at the least scale that keeps it, and the alpha "
    "that makes
    it least."""

    rule: str
    epsilon: float
    distortions: Floats
    alpha: float
    least: float
    rival: float  # E|Y| of Laplace noise, or of Gaussian noise where there is a delta


def best_alpha(rule: str, epsilon: float) -> BestAlpha:
    """Which alpha costs least distortion at this eps: "one" and "all" pure, for a difference of 1 in one coordinate or
    in L1; "many" at `DELTA`, for a difference of 1 in L2 spread evenly over ever more coordinates.

    "many" is the limit in which only Fisher information counts, the low end of what noise of this scale costs: no upper
    bound, since a difference in few coordinates may cost more. That nothing beats the Gaussian there says so of every
    sound scale, too.
    """

    def scale(alpha: float) -> float:
        if rule == "one":
            return math.exp(
                brentq(
                    lambda log: one_epsilon(alpha, math.exp(log)) - epsilon, math.log(1e-3), math.log(1e4), xtol=1e-6
                )
            )
        if rule == "all":
            return score_bound(alpha) / epsilon
        return math.sqrt(fisher_information(alpha)) * gaussian_ratio(epsilon, DELTA)

    found = np.array([distortion(float(alpha), scale(float(alpha))) for alpha in TRIED_ALPHAS])
    place = int(np.argmin(found))
    alpha, distortion_found = float(TRIED_ALPHAS[place]), float(found[place])
    if 0 < place < len(TRIED_ALPHAS) - 1:
        ends = float(TRIED_ALPHAS[place - 1]), float(TRIED_ALPHAS[place + 1])
        best = minimize_scalar(
            lambda a: distortion(float(a), scale(float(a))), bounds=ends, method="bounded", options={"xatol": 5e-3}
        )
        alpha, distortion_found = float(best.x), float(best.fun)
    rival = math.sqrt(2 / math.pi) * gaussian_ratio(epsilon, DELTA) if rule == "many" else 1 / epsilon
    return BestAlpha(rule, epsilon, found, alpha, distortion_found, rival)
