"""Problems made to break the solver: one for every number, of all kinds that ever did."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from toppush import TopPush

LOSSES = ("truncated_quadratic", "logistic", "exponential")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Rows of two classes, what a fit is to do with them, and the form in which it gets them."""

    X: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray | None = None
    lam: float
    top: float | str = 1
    loss: str = "truncated_quadratic"
    solver: str = "newton"
    pairwise: bool = False
    tol: float = 1e-4
    max_iter: int = 10_000
    holding: str = "dense"
    number: int | None = None
    values: str = ""
    shape: str = ""
    weighting: str = ""

    def ranker(self, n_jobs=1):
        options = {"loss": self.loss, "solver": self.solver, "tol": self.tol}
        options |= {"pairwise": self.pairwise, "max_iter": self.max_iter}
        return TopPush(self.lam, top=self.top, n_jobs=n_jobs, **options)

    @property
    def magnitudes(self):
        """The sizes that a refusal may name: of the rows, and of weights beyond 1e+-100."""
        names = {f"{np.abs(self.X).max():.3g}"}
        weight = np.ones(0) if self.sample_weight is None else self.sample_weight
        beyond = weight[(weight > 0.0) & ((weight < 1e-100) | (weight > 1e100))]
        return names | {f"{one:g}" for one in beyond}

    @property
    def stiffness(self):
        """The power of ten of lam in units of the rows' size, in steps of eight."""
        size = np.ptp(self.X.astype(np.longdouble), axis=0).max()
        power = np.log10(self.lam) - 2 * np.log10(max(size, np.longdouble("1e-330")))
        return f"lam/|x|^2 > 1e{min(max(8 * int(power // 8), -48), 16):+d}"

    def __str__(self):
        rows = f"{self.X.shape[0]} x {self.X.shape[1]} {self.X.dtype}, {self.y.sum()} positive"
        return (
            f"{self.number}: {self.values}; {self.shape}; weights {self.weighting}; "
            f"{self.holding}; {rows}; {self.loss}{', pairwise' * self.pairwise}, "
            f"lam={self.lam:.3g}, top={self.top}, "
            f"{self.solver}, tol={self.tol:g}, max_iter={self.max_iter}"
        )


# Shapes: rows, columns, and which rows are positive.


def _plain_shape(rng):
    return rng.integers(5, 301), rng.integers(1, 31), rng.uniform(0.05, 0.95)


SHAPES = {
    "plain": (12, _plain_shape),
    "one positive": (1, lambda rng: (rng.integers(5, 120), rng.integers(1, 12), 0.0)),
    "one negative": (1, lambda rng: (rng.integers(5, 120), rng.integers(1, 12), 1.0)),
    "two rows": (0.3, lambda rng: (2, rng.integers(1, 4), 0.5)),
    "d > n": (2, lambda rng: (rng.integers(5, 41), rng.integers(41, 80), rng.uniform(0.2, 0.8))),
    "one column": (1.5, lambda rng: (rng.integers(5, 200), 1, rng.uniform(0.1, 0.9))),
    "few rows": (3, lambda rng: (rng.integers(2, 9), rng.integers(1, 4), rng.uniform(0.2, 0.8))),
    "d > 1000": (0.3, lambda rng: (rng.integers(10, 60), rng.integers(1001, 1300), 0.5)),
}


def _positives(rng, n_rows, share):
    n_pos = min(max(round(share * n_rows), 1), n_rows - 1)
    return rng.permutation(np.arange(n_rows) < n_pos)


# Values: each takes rows of a normal distribution, positives shifted, and makes them hostile.


def _ties(rng, X):
    return np.clip(np.round(X), -1, rng.choice([1, 2, 5]))


def _zeros_and_ones(rng, X):
    return (X - rng.uniform(-0.5, 1.5) > 0.0).astype(np.float64)


def _duplicates(rng, X):
    return X[rng.integers(0, max(1, len(X) // 3), len(X))]


def _holes(rng, X):
    X = np.where(rng.random(X.shape) < 0.7, 0.0, X)
    X[rng.random(len(X)) < 0.2] = 0.0
    X[:, rng.random(X.shape[1]) < 0.2] = 0.0
    return X


def _row_scales(rng, X):
    return X * 10.0 ** rng.uniform(-8, 8, (len(X), 1))


def _column_scales(rng, X):
    return X * 10.0 ** rng.uniform(-6, 6, X.shape[1])


def _extreme_columns(rng, X):
    return X * rng.choice([1e-150, 1.0, 1e150], X.shape[1])


def _cauchy(rng, X):
    return X + rng.standard_cauchy(X.shape)


def _shifted(*offsets):
    return lambda rng, X: X + rng.choice(offsets) * rng.choice([-1.0, 1.0, 1.0])


def _times(factor):
    return lambda rng, X: X * factor


def _times_any(low, high):
    return lambda rng, X: X * 10.0 ** (rng.choice([-1.0, 1.0]) * rng.uniform(low, high))


def _one_huge(rng, X):
    X[rng.integers(len(X)), rng.integers(X.shape[1])] = 10.0 ** rng.uniform(20, 300)
    return X


def _subnormal(rng, X):
    """Entries next to the least there is, alone or beside common ones."""
    tiny = X * 1e-310
    return tiny if rng.random() < 0.3 else np.where(rng.random(X.shape) < 0.5, tiny, X)


def _tiny_integers(rng, X):
    """Two to eight rows of small integers, times a common factor."""
    rows = rng.integers(-3, 4, X.shape)
    return rows * float(rng.choice([1.0, 10.0, 1000.0, 1e-3]))


def _single(change):
    return lambda rng, X: change(rng, X).astype(np.float32)


VALUES = {
    "plain": (3, lambda rng, X: X),
    "float32": (2, _single(lambda rng, X: X)),
    "float32 + 10": (1, _single(_shifted(10.0))),
    "float32 + 1e3": (1, _single(_shifted(1e3))),
    "float32 + 1e4": (1, _single(_shifted(1e4))),
    "float32 rows 1e-3..1e3": (
        1,
        _single(lambda rng, X: X * 10.0 ** rng.uniform(-3, 3, (len(X), 1))),
    ),
    "offset 1e2..1e5": (1, _shifted(1e2, 1e3, 1e4, 1e5)),
    "offset 1e6..1e8": (1, _shifted(1e6, 1e7, 1e8)),
    "rows 1e-8..1e8": (2, _row_scales),
    "columns 1e-6..1e6": (2, _column_scales),
    "columns 1e+-150": (1, _extreme_columns),
    "x 1e30": (0.7, _times(1e30)),
    "x 1e80": (0.7, _times(1e80)),
    "x 1e-100": (0.7, _times(1e-100)),
    "x 1e+-300": (0.7, _times_any(150, 300)),
    "one huge entry": (0.7, _one_huge),
    "subnormal": (0.7, _subnormal),
    "tiny integers": (2, _tiny_integers),
    "Cauchy": (2, _cauchy),
    "ties": (1, _ties),
    "0/1": (1, _zeros_and_ones),
    "duplicates": (1, _duplicates),
    "holes": (1, _holes),
}

EXTREME = ("x 1e30", "x 1e80", "x 1e-100", "columns 1e+-150", "x 1e+-300", "one huge entry")

HOLDINGS = {
    "dense": 6, "Fortran order": 1, "CSR": 3, "disk": 0.7, "disk CSR": 0.7, "torch": 0.7,
    "torch CSR": 0.7, "Dask": 0.05,
}  # fmt: skip

WEIGHTINGS = {
    "none": (6, lambda rng, n: None),
    "1e-12..1e12": (1, lambda rng, n: 10.0 ** rng.uniform(-12, 12, n)),
    "some zero": (1, lambda rng, n: rng.choice([0.0, 0.5, 1.0, 3.0], n)),
    "all 1e-12": (0.5, lambda rng, n: np.full(n, 1e-12)),
    "all 1e12": (0.5, lambda rng, n: np.full(n, 1e12)),
    "1e-99..1e99": (0.5, lambda rng, n: 10.0 ** rng.uniform(-99, 99, n)),
    "some 1e308": (0.2, lambda rng, n: rng.choice([1.0, 1e308], n)),
    "all 1e-165": (0.2, lambda rng, n: np.full(n, 1e-165)),
    "1e-320..1e308": (0.2, lambda rng, n: 10.0 ** rng.uniform(-320, 308, n)),
}


def hostile_problem(number, holding=None):
    """The problem of this number, its rows held as the number says or as is asked."""
    rng = np.random.default_rng(number)
    shape, values, weighting = (_draw(rng, kinds) for kinds in (SHAPES, VALUES, WEIGHTINGS))
    n_rows, n_columns, share = SHAPES[shape][1](rng)
    y = _positives(rng, n_rows, share)
    X = rng.normal(size=(n_rows, n_columns)) + y[:, None] * rng.choice([0.0, 0.3, 1.0, 3.0])
    X = VALUES[values][1](rng, X)
    weight = _with_both_classes(WEIGHTINGS[weighting][1](rng, n_rows), y)
    drawn = rng.choice(list(HOLDINGS), p=_shares(HOLDINGS.values()))
    about = {"values": values, "shape": shape, "weighting": weighting}
    about["holding"] = holding or str(drawn)
    n_neg = np.sum(~y if weight is None else ~y & (weight > 0))
    terms = _parameters(rng, n_neg) | {"lam": _lam(rng, X, values)}
    return Problem(number=number, X=X, y=y, sample_weight=weight, **about, **terms)


hostile_problems = st.integers(0, 2**32 - 1).map(hostile_problem)


def _draw(rng, kinds):
    return rng.choice(list(kinds), p=_shares(weight for weight, _ in kinds.values()))


def _shares(weights):
    weights = np.array(list(weights), dtype=np.float64)
    return weights / weights.sum()


def _with_both_classes(weight, y):
    """A row of each class must count."""
    if weight is not None:
        for one in (y, ~y):
            weight[np.flatnonzero(one)[0]] = max(weight[one].max(), 1e-12)
    return weight


def _parameters(rng, n_neg):
    solver = rng.choice(["newton", "paper"], p=[0.93, 0.07])
    short = rng.integers(1, 12) if rng.random() < 0.04 else 10_000
    return {
        "top": _top(rng, n_neg),
        "pairwise": bool(solver == "newton" and rng.random() < 0.1),
        "loss": str(rng.choice(LOSSES)),
        "solver": str(solver),
        "tol": float(rng.choice([1e-4, 1e-6, 1e-2], p=[0.7, 0.2, 0.1])),
        "max_iter": 300 if solver == "paper" else int(short),
    }


def _lam(rng, X, values):
    """From 1e-8 to 1e4, now and then far outside; mostly in proportion to rows of extreme size.

    Where it is not, and the classes overlap, X+'a and X-'b must agree to more digits than a
    float64 dual has, and all that can be asked for is bounds that hold.
    """
    lam = rng.choice([10.0 ** rng.uniform(-8, 4), 1e-12, 1e200], p=[0.96, 0.02, 0.02])
    in_proportion = values in EXTREME and lam < 1e200 and rng.random() < 0.95
    fitting = lam * np.abs(X).max().astype(np.longdouble) ** 2
    in_reach = np.finfo(np.float64).tiny < fitting < np.finfo(np.float64).max
    return float(fitting) if in_proportion and in_reach else float(lam)


def _top(rng, n_neg):
    tops = [1, int(rng.integers(1, n_neg + 1)), float(rng.uniform(0.001, 1.0)), 1.0, "auto"]
    return tops[rng.choice(5, p=[0.3, 0.2, 0.25, 0.15, 0.1])]
