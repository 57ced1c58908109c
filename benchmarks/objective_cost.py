"""What the pairwise push costs in a round of boosting, against the engine's own round.

A million synthetic rows of 25 columns with a signal in some, 1 % and 10 % positive. A round of
the engine is one tree of 15 leaves on its own binary log loss, `engine_ms`; `objective_ms` is the
time within `TopPushObjective` in a round on it, `round_ms` all of that round. One thread, medians
over the rounds, by the processor's clock, which other work on the machine disturbs little. The
bar is half of the engine's round.

    python -m benchmarks.objective_cost [--rows 1000000] [--rounds 30]
"""

import argparse
from collections.abc import Callable, Iterator
from statistics import median
from time import process_time
from typing import Any

import lightgbm
import numpy as np
import xgboost

from benchmarks.common import report
from toppush.objectives import LIGHTGBM_PARAMS, XGBOOST_PARAMS, TopPushObjective

N_COLUMNS = 25
SHARES = (0.01, 0.1)
COLUMNS = [
    "engine", "rows", "columns", "positives", "engine_ms", "objective_ms", "round_ms", "ratio",
]  # fmt: skip


def made_rows(n_rows: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Columns of noise, of which five carry the label."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_COLUMNS)).astype(np.float32)
    signal = X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) - 0.5 * X[:, 4] ** 2
    signal = signal + rng.normal(size=n_rows)
    return X, (signal > np.quantile(signal, 1 - share)).astype(int)


class Timed:
    """An objective that keeps the time of each call."""

    def __init__(self, objective: TopPushObjective) -> None:
        self.objective, self.seconds = objective, []

    def __call__(self, scores: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
        began = process_time()
        found = self.objective(scores, data)
        self.seconds.append(process_time() - began)
        return found


class LightGBM:
    """A training of LightGBM, round by round."""

    def __init__(self, X: np.ndarray, y: np.ndarray, objective: Timed | None) -> None:
        own = {"objective": "binary" if objective is None else "none"}
        params = {**LIGHTGBM_PARAMS, "num_threads": 1, "verbosity": -1, **own}
        self.booster = lightgbm.Booster(params, lightgbm.Dataset(X, y))
        self.objective = objective

    def round(self, _: int) -> None:
        self.booster.update(fobj=self.objective)


class XGBoost:
    """A training of XGBoost, round by round."""

    def __init__(self, X: np.ndarray, y: np.ndarray, objective: Timed | None) -> None:
        own = {"objective": "binary:logistic"} if objective is None else {}
        self.data = xgboost.DMatrix(X, y, nthread=1)
        self.booster = xgboost.Booster({**XGBOOST_PARAMS, "nthread": 1, **own}, [self.data])
        self.objective = objective

    def round(self, number: int) -> None:
        self.booster.update(self.data, number, fobj=self.objective)


ENGINES: dict[str, Callable[..., Any]] = {"LightGBM": LightGBM, "XGBoost": XGBoost}


def median_ms(seconds: list[float]) -> float:
    """Without the first rounds, in which engines lay out their data."""
    return 1e3 * median(seconds[2:])


def trained(training: Any, n_rounds: int) -> list[float]:
    seconds = []
    for number in range(n_rounds):
        began = process_time()
        training.round(number)
        seconds.append(process_time() - began)
    return seconds


def measured(n_rows: int, n_rounds: int) -> Iterator[list[Any]]:
    for share in SHARES:
        X, y = made_rows(n_rows, share)
        for name, engine in ENGINES.items():
            timed = Timed(TopPushObjective())
            own, ours = engine(X, y, None), engine(X, y, timed)
            engine_ms = median_ms(trained(own, n_rounds))
            round_ms, objective_ms = median_ms(trained(ours, n_rounds)), median_ms(timed.seconds)
            ratio = objective_ms / engine_ms
            numbers = [engine_ms, objective_ms, round_ms, ratio]
            yield [name, n_rows, N_COLUMNS, share, *(round(number, 3) for number in numbers)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    report("objective-cost", COLUMNS, list(measured(options.rows, options.rounds)))


if __name__ == "__main__":
    main()
