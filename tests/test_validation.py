"""Errors about rows that hold no numbers, no rows or no columns."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from toppush import (
    TopPush,
    TopPushAdditive,
    TopPushCV,
    TopPushKernel,
    TopPushNet,
    TopPushTrees,
    TopRanker,
    toppush_path,
)
from toppush.baselines import BASELINES

pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
TABLE = pd.DataFrame({"a": np.arange(60.0), "kind": ["p", "q", "r"] * 20})
Y = np.arange(60) % 3 == 0
RANKERS = [TopPush(), TopPushCV(), TopPushAdditive(), TopPushKernel(), TopPushNet()]
RANKERS += [BASELINES["RankSVM"](), BASELINES["LogisticRanker"]()]


@pytest.mark.parametrize(
    "rows", [TABLE, pa.Table.from_pandas(TABLE), TABLE.to_numpy()], ids=["pandas", "arrow", "array"]
)
@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: type(ranker).__name__)
def test_columns_without_numbers_are_named(ranker, rows):
    if isinstance(ranker, TopPushNet):
        pytest.importorskip("torch")
    name = "1" if isinstance(rows, np.ndarray) else "'kind'"
    with pytest.raises(ValueError, match=rf"{name} \(such as 'p'\).*TopRanker"):
        ranker.fit(rows, Y)


def test_a_path_names_columns_without_numbers():
    with pytest.raises(ValueError, match="'kind'"):
        toppush_path(TABLE, Y)


def test_columns_without_numbers_are_named_when_scoring():
    ranker = TopPush().fit(TABLE.assign(kind=TABLE.a % 7), Y)
    with pytest.raises(ValueError, match="'kind'"):
        ranker.decision_function(TABLE)


@pytest.mark.parametrize("ranker", [TopRanker(), TopPush(), TopPushTrees()])
@pytest.mark.parametrize("rows", [TABLE.iloc[:, :0], pa.table({}), np.empty((60, 0))])
def test_rows_without_columns_are_refused(ranker, rows):
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        ranker.fit(rows, Y)


def test_columns_without_rows_are_refused():
    with pytest.raises(ValueError, match="X has no rows"):
        TopRanker().fit(TABLE.iloc[:0], Y[:0])
