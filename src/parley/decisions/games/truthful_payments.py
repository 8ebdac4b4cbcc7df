"""A payment rule under which no owner gains by misstating its privacy cost.

**What is private.** Each owner has one private number, the weight w_i of its privacy cost w_i f_i(eps); for a linear
cost that is its cost per unit of eps. Everything else is public: the shape f_i, values, records and the forecast. Costs
are assumed to be unrelated to rows: a stated cost that depends on rows would reveal something that no eps covers.

**Which budgets.** A candidate gives each owner a level of a fixed grid, or 0 if it stays out; with a target, only
levels that reach it are allowed. Whichever way owners state their costs, the candidates are the same. The rule takes
the candidate x that minimises

    h(x) + sum_i w_i f_i(x_i)    h(x) = all owners' values x (the forecast cost of the joint model - their cost alone)

and 0 if nobody joins. h values the model for all owners, whoever joins. It counts records in cells of a public mesh, so
that a dynamic programme over cells finds the exact minimum over all candidates, (levels + 1)^N of them.

**What is paid.** An owner receives w_i f_i(x_i) + rent, where rent is the integral of f_i(x_i(z)) over statements z
from w_i to the cap (Myerson). A member's gain from the joint model is public and counts as a part of what it receives.
So the money paid is that sum less the gain; below 0 it is a fee.

**Proof.** Fix the others' statements. Let K(z) be the least objective when owner i states z. K is the minimum of one
line per candidate, h(x) + others' costs + z f_i(x_i), so it is concave, and f_i(x_i(z)) is one of its slopes at z: it
never rises with z. An owner with weight w that states z has payoff z s + (K(cap) - K(z)) - w s, with s = f_i(x_i(z)).
By concavity K(w) <= K(z) + (w - z) s, so this is at most K(cap) - K(w), its payoff with the true statement, which is
at least 0. The proof needs an exact minimum over candidates fixed in advance (maximal in range), not that they are many
or that h is accurate, and it holds however ties are broken. It says nothing of owners that agree on false statements.
K(cap) - K(w) is also owner i's payment by Vickrey, Clarke and Groves over these candidates.

Gains are those of the game, interpolated between the terms' budgets and no noise (`stakes`). A forecast of the agreed
terms may say less; then a fee may exceed what a member gains.

In floating point "never" means: up to rounding errors, relative to the largest amount that decides the payment.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parley.decisions.games.budget_game import BudgetGame
from parley.decisions.games.payments import Deal, best_reachable, cheapest_contracts, what_would_help
from parley.decisions.knowledge.privacy_cost import PrivacyCosts
from parley.errors import NoEquilibriumError, SettingError
from parley.terms import PrivacyCost
from parley.validate import LARGEST, Floats, Integers, few_names, non_negative, positive

LEVELS = 41  # budgets that an owner may get, in equal ratios between the ends of the range
MIN_CELLS, CELLS_PER_OWNER = 240, 8  # of the mesh on which records are counted
MAX_TRUTHFUL_OWNERS = 100  # the work grows with N^3 log N


@dataclass(frozen=True, eq=False)
class TruthfulRule:
    """The public part of the rule, which no statement changes; `allocate` and `rents` take statements [N]."""

    levels: Floats  # [L], ascending
    shapes: Floats  # privacy cost of each level at weight 1 [L, N]
    cells: Integers  # each owner's records, in cells of the mesh [N]
    base: Floats  # h without noise for a coalition of 1, 2, ..., R cells [R]
    price: Floats  # what one unit of noise adds to h there [R]
    noise: Floats  # n_l^2 var_l of each level [L, N]
    quota: Floats  # the most that a member's noise may be for each of its records [R]
    records: Floats
    nobody: float  # h if nobody joins; inf: not a candidate, a target must be reached
    cap: float  # statements above it stay out; inf: none

    @classmethod
    def from_game(
        cls, game: BudgetGame, shapes: PrivacyCosts, target: float | None = None, cap: float | None = None
    ) -> "TruthfulRule":
        """Make the rule from what is public of a game, which its privacy costs are not; `shapes` are those at weight 1.

        A `target` for relative fitness is reached by quotas: noise of each member within its records' share of the
        noise that the target allows."""
        if game.owners < 2:
            raise SettingError("owners: expected at least two owners, because a joint model needs two")
        if game.owners > MAX_TRUTHFUL_OWNERS:
            raise SettingError(f"truthful payments: expected at most {MAX_TRUTHFUL_OWNERS} owners, got {game.owners}")
        known, cost = game.stakes, game.stakes.cost
        levels = np.clip(np.geomspace(*game.budget_range, LEVELS), *game.budget_range)
        cells, cell = mesh(known.records)
        size = np.arange(1.0, cells.sum() + 1) * cell
        overcount = float(np.maximum(cells * cell - known.records, 0.0).sum())
        value = float(game.weight.sum())
        rule = cls(
            levels=levels,
            shapes=shapes(levels[:, None]),
            cells=cells,
            base=np.asarray(value * (cost.estimation / size + cost.bias) - float(game.weight @ game.alone)),
            price=np.asarray(value * cost.noise_price / size**2),
            noise=known.unit_noise.variances * known.records**2 * np.asarray(known.unit_variance(levels))[:, None],
            quota=_quota(game, target, size - overcount),
            records=known.records,
            nobody=0.0 if target is None else math.inf,
            cap=math.inf if cap is None else non_negative(cap, "cap"),
        )
        if target is not None and np.isinf(rule._totals(np.zeros(game.owners))).all():
            raise SettingError(
                f"target = {target:g}: the truthful rule cannot reach this relative fitness. The best relative fitness "
                f"of other contracts is {best_reachable(game):.3g}, and that of the truthful rule is somewhat larger; "
                + what_would_help(target, known.fitness(np.zeros(1)).item())
            )
        return rule

    @property
    def owners(self) -> int:
        """The number of owners, N."""
        return len(self.cells)

    def allocate(self, stated: Floats) -> Floats:
        """Return the budgets of least objective, 0 for owners that stay out [N]."""
        stated = self._checked(stated)
        nothing = np.zeros(self.owners)
        totals = self._totals(stated)
        place = int(np.argmin(totals))
        if not totals[place] < self.nobody:
            return nothing
        row = slice(place, place + 1)
        asked = np.stack([self._asked(owner, stated[owner], row)[0] for owner in range(self.owners)])
        cheapest = asked.min(axis=1)
        return np.where(self._members(cheapest, place + 1), self.levels[np.argmin(asked, axis=1)], nothing)

    def rents(self, stated: Floats) -> Floats:
        """Return the integral of every owner's f(eps) over its statements from the stated one to the cap [N]; inf for
        one without whom the target is out of reach, if there is no cap."""
        stated = self._checked(stated)
        rents = np.zeros(self.owners)
        for owner, (slopes, heights) in enumerate(self._lines(stated)):
            if stated[owner] <= self.cap:
                rents[owner] = area_below(slopes, heights, float(stated[owner]), self.cap)
        return rents

    def _checked(self, stated: Floats) -> Floats:
        stated = np.asarray(stated, dtype=float)
        if stated.shape != self.cells.shape or not ((stated >= 0) & (stated <= LARGEST)).all():
            raise SettingError(f"stated costs: expected {self.owners} numbers from 0 to {LARGEST:g}, one per owner")
        return stated

    def _asked(self, owner: int, weight: float, rows: slice = slice(None)) -> Floats:
        """Return what each level of an owner adds to the objective, by cells of the coalition [R, L]; inf: not
        allowed."""
        noise = self.noise[:, owner]
        allowed = noise <= self.quota[rows, None] * self.records[owner]
        adds = self.price[rows, None] * noise + weight * self.shapes[:, owner]
        return np.where(allowed & (weight <= self.cap), adds, math.inf)

    def _totals(self, stated: Floats) -> Floats:
        """Return the least objective of coalitions of 1, 2, ..., R cells [R]; they have two members or more."""
        table = _Sums.empty(len(self.base))
        for owner in range(self.owners):
            table = table.plus(int(self.cells[owner]), self._asked(owner, stated[owner]).min(axis=1))
        return self.base + table.several[_rows(table), _rows(table) + 1]

    def _members(self, cheapest: Floats, cells: int) -> NDArray[np.bool_]:
        """Return the coalition of exactly so many cells with the least sum of `cheapest` [N]."""
        tables = [_Sums.empty(1, cells)]
        for owner in range(self.owners):
            tables.append(tables[-1].plus(int(self.cells[owner]), cheapest[owner : owner + 1]))
        members, wanted, left = np.zeros(self.owners, dtype=bool), 2, cells
        for owner in reversed(range(self.owners)):
            if wanted == 0:
                break
            here, before = tables[owner + 1], tables[owner]
            if here.of(wanted)[0, left] == before.of(wanted)[0, left]:
                continue
            members[owner] = True
            rest = left - int(self.cells[owner])
            more = wanted == 2 and not before.single[0, rest] < before.several[0, rest]
            wanted, left = wanted if more else wanted - 1, rest
        return members

    def _lines(self, stated: Floats) -> list[tuple[Floats, Floats]]:
        """Return, for each owner, the slope and height at 0 of the objective's lines in its own statement."""
        found: dict[int, tuple[Floats, Floats]] = {}

        def split(owners: list[int], others: _Sums) -> None:
            if len(owners) == 1:
                found[owners[0]] = self._owner_lines(owners[0], others)
                return
            halves = owners[: len(owners) // 2], owners[len(owners) // 2 :]
            for inside, outside in (halves, halves[::-1]):
                table = others
                for owner in outside:
                    table = table.plus(int(self.cells[owner]), self._asked(owner, stated[owner]).min(axis=1))
                split(inside, table)

        split(list(range(self.owners)), _Sums.empty(len(self.base)))
        return [found[owner] for owner in range(self.owners)]

    def _owner_lines(self, owner: int, others: "_Sums") -> tuple[Floats, Floats]:
        rows = _rows(others)
        rest = rows + 1 - self.cells[owner]
        company = np.where(rest >= 0, np.minimum(others.single, others.several)[rows, rest], math.inf)
        joins = ((self.base + company)[:, None] + self._asked(owner, 0.0)).min(axis=0)
        stays_out = min(float((self.base + others.several[rows, rows + 1]).min()), self.nobody)
        return np.append(0.0, self.shapes[:, owner]), np.append(stays_out, joins)


@dataclass(frozen=True, eq=False)
class _Sums:
    """The least sums of members' costs by cells: rows are what prices go by [R], columns cells of the members [R+1]."""

    single: Floats  # of exactly one member
    several: Floats  # of two or more

    @classmethod
    def empty(cls, rows: int, cells: int | None = None) -> "_Sums":
        nothing = np.full((rows, (rows if cells is None else cells) + 1), math.inf)
        return cls(nothing, nothing)

    def plus(self, cells: int, cost: Floats) -> "_Sums":
        """Return the sums when one more owner may join, at these costs [R]."""
        single, several = self.single.copy(), self.several.copy()
        width = single.shape[1] - cells
        if width > 0:
            single[:, cells] = np.minimum(single[:, cells], cost)
            company = np.minimum(self.single, self.several)[:, :width]
            several[:, cells:] = np.minimum(several[:, cells:], company + cost[:, None])
        return replace(self, single=single, several=several)

    def of(self, members: int) -> Floats:
        return self.single if members == 1 else self.several


def _rows(table: _Sums) -> Integers:
    return np.arange(len(table.several))


def mesh(records: Floats) -> tuple[Integers, float]:
    """Return each owner's records in cells and the records of a cell; exact if few enough cells make it so.

    >>> cells, cell = mesh(np.array([120.0, 130.0, 140.0]))
    >>> cells.tolist(), cell
    ([12, 13, 14], 10.0)
    """
    many = max(MIN_CELLS, CELLS_PER_OWNER * len(records))
    total = float(records.sum())
    common = math.gcd(*(int(each) for each in records)) if (records == np.rint(records)).all() else 0
    cell = float(common) if common and total / common <= many else total / many
    return np.maximum(np.rint(records / cell), 1).astype(np.int64), cell


def area_below(slopes: Floats, heights: Floats, start: float, end: float) -> float:
    """Return the integral from `start` to `end` of the slope of the lowest line, exactly, from break point to break
    point.

    >>> area_below(np.array([0.0, 1.0, 3.0]), np.array([6.0, 3.0, 0.0]), 1.0, np.inf)  # 3 up to 1.5, then 1 up to 3
    3.0
    """
    real = np.isfinite(heights)
    slopes, heights = slopes[real], heights[real]
    if not slopes.size:
        return 0.0
    here = heights + start * slopes
    line = int(np.lexsort((slopes, here))[0])
    area = 0.0
    while slopes[line] > 0 and start < end:
        flatter = np.flatnonzero(slopes < slopes[line])
        if not flatter.size:
            return area + float(slopes[line]) * (end - start)
        breaks = (heights[flatter] - heights[line]) / (slopes[line] - slopes[flatter])
        first = int(np.lexsort((slopes[flatter], breaks))[0])
        stop = min(max(float(breaks[first]), start), end)
        area += float(slopes[line]) * (stop - start)
        line, start = int(flatter[first]), stop
    return area


def truthful_deal(
    game: BudgetGame,
    shapes: PrivacyCosts,
    stated: Floats,
    target: float | None = None,
    cap: float | None = None,
    names: Sequence[str] = (),
) -> Deal:
    """Return the rule's budgets and payments.

    Parameters
    ----------
    game
        The owners' game; its privacy costs are not read.
    shapes
        The public shapes: every owner's privacy cost at weight 1.
    stated
        Every owner's statement of its weight [N].
    target
        The relative fitness that the model must reach.
    cap
        The largest weight that is paid for; needed with a target that cannot be reached without some owner.
    names
        The owners' names, for messages.
    """
    return pay(TruthfulRule.from_game(game, shapes, target, cap), game, shapes, stated, names)


def pay(rule: TruthfulRule, game: BudgetGame, shapes: PrivacyCosts, stated: Floats, names: Sequence[str] = ()) -> Deal:
    """Return the budgets and payments of a rule made from this game."""
    epsilon, rent = rule.allocate(stated), rule.rents(stated)
    if np.isinf(rent).any():
        needed = np.flatnonzero(np.isinf(rent)).tolist()
        who = few_names([names[place] if names else f"owner {place + 1}" for place in needed])
        raise SettingError(
            f"truthful payments: the target cannot be reached without {who}, so {who} could ask for any price. "
            "Give the highest privacy cost weight that you accept (--max-price, in Python max_price), "
            "or a larger target"
        )
    members = epsilon > 0
    budgets = np.where(members, epsilon, game.budget_range[0])
    gains = game.value * game.gains(budgets, members)
    contract = np.where(members, stated * shapes(budgets) + rent - gains, 0.0)
    return Deal(budgets, members, contract, np.zeros(game.owners), 0.0, np.where(members, rent, 0.0))


@dataclass(frozen=True, eq=False)
class TruthfulOffer:
    """The truthful rule's deal beside the contracts that reach the same quality if all statements are true."""

    deal: Deal
    relative_fitness: float | None  # None: nobody joins
    max_price: float | None
    contracts: Deal | None  # None: nobody joins, or no coalition holds together at this quality

    def to_json(self, names: Sequence[str]) -> dict[str, object]:
        """The object under `truthful` in `parley negotiate --json`."""
        return {
            "relative_fitness": self.relative_fitness,
            "max_price": self.max_price,
            "spend": self.deal.spend,
            "owners": _owners_json(self.deal, names),
            "contracts": None
            if self.contracts is None
            else {"spend": self.contracts.spend, "owners": _owners_json(self.contracts, names)},
        }


def _owners_json(deal: Deal, names: Sequence[str]) -> list[dict[str, object]]:
    columns = (deal.members.tolist(), deal.epsilon.tolist(), deal.payment.tolist(), deal.payoff.tolist())
    return [
        {
            "name": name,
            "participates": joins,
            "epsilon": epsilon if joins else None,
            "payment": payment,
            "payoff": payoff,
        }
        for name, joins, epsilon, payment, payoff in zip(names, *columns, strict=True)
    ]


def truthful_offer(
    game: BudgetGame,
    costs: Mapping[str, PrivacyCost],
    target: float | None = None,
    max_price: float | None = None,
) -> TruthfulOffer:
    """Return the truthful deal for these owners' stated costs, and the contracts that reach the same quality."""
    shapes = PrivacyCosts.from_curves([PrivacyCost(kind=cost.kind, weight=1.0) for cost in costs.values()])
    stated = np.array([float(cost.weight) for cost in costs.values()])
    deal = truthful_deal(game, shapes, stated, target, max_price, tuple(costs))
    fitness = game.fitness(deal.epsilon, deal.members)
    contracts = None
    if fitness is not None:
        with suppress(NoEquilibriumError):
            contracts = cheapest_contracts(game, target if target is not None else fitness)
    return TruthfulOffer(deal, fitness, max_price, contracts)


def _quota(game: BudgetGame, target: float | None, size: Floats) -> Floats:
    """Return the noise that each record of a member may bring so that coalitions of at least `size` records reach the
    target; below 0: none does."""
    cost = game.stakes.cost
    if target is None:
        return np.full(len(size), math.inf)
    if cost.noise_price > 0:
        return np.asarray(game.stakes.variance_at(positive(target, "target")) * np.maximum(size, 0.0))
    return np.full(len(size), math.inf if positive(target, "target") * game.stakes.least_cost >= cost.bias else -1.0)
