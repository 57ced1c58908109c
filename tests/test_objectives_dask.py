"""The pairwise loss on several processes: XGBoost gives the answer of one, LightGBM is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from toppush.objectives import TopPushObjective, XGBoostMetric

da = pytest.importorskip("dask.array", reason="needs Dask, the extra [dask]")
distributed = pytest.importorskip("distributed", reason="needs Dask, the extra [dask]")
xgboost = pytest.importorskip("xgboost", reason="needs XGBoost, the extra [xgboost]")
on_dask = pytest.importorskip("xgboost.dask")

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

N_ROWS = 3000
PARAMS = {"max_depth": 4, "nthread": 1, "base_score": 0.5}
AP = XGBoostMetric("average_precision")


@pytest.fixture(scope="module", params=[2, 4])
def workers(request):
    """Clients of clusters whose workers are processes: XGBoost's network is one per process."""
    with (
        distributed.LocalCluster(
            n_workers=request.param, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def made(rng):
    """Few values a column, so that XGBoost cuts it in the same places however rows are spread."""
    X = rng.integers(0, 40, size=(N_ROWS, 5)).astype(float)
    target = X[:, 0] + (X[:, 1] - 20) ** 2 / 10 + 6 * rng.normal(size=N_ROWS)
    return X, (target > np.quantile(target, 0.9)).astype(int), rng.integers(1, 4, N_ROWS) / 2


def spread(client, X, y, weight=None):
    rows = -(-N_ROWS // (2 * len(client.nthreads())))
    lazy = [None if one is None else da.from_array(one, chunks=rows) for one in (y, weight)]
    X = da.from_array(X, chunks=(rows, X.shape[1]))
    return on_dask.DaskDMatrix(client, X, lazy[0], weight=lazy[1])


def trained(client, data, **options):
    """Booster, and what was measured, on the workers."""
    found = on_dask.train(
        client, PARAMS, data, 20, obj=TopPushObjective(), verbose_eval=False, **options
    )
    return found["booster"], found["history"]


@pytest.mark.parametrize("weighted", [False, True])
def test_many_workers_are_one(workers, made, weighted):
    X, y, weight = made[0], made[1], made[2] if weighted else None
    here, measured = xgboost.DMatrix(X, y, weight=weight), {}
    one = xgboost.train(
        PARAMS, here, 20, obj=TopPushObjective(), custom_metric=AP, evals=[(here, "rows")],
        evals_result=measured, verbose_eval=False,
    )  # fmt: skip
    there = spread(workers, X, y, weight)
    many, history = trained(workers, there, custom_metric=AP, evals=[(there, "rows")])
    margins = [booster.predict(here, output_margin=True) for booster in (one, many)]
    assert_allclose(*margins, atol=1e-5)
    assert_allclose(history["rows"][AP.__name__], measured["rows"][AP.__name__], atol=1e-6)


def test_a_worker_may_have_rows_of_one_class(workers, made):
    X, y, _ = made
    order = np.argsort(y, kind="stable")
    here = xgboost.DMatrix(X, y)
    one = xgboost.train(PARAMS, here, 20, obj=TopPushObjective())
    many, _ = trained(workers, spread(workers, X[order], y[order]))
    assert_allclose(many.predict(here), one.predict(here), atol=1e-5)


def test_the_classifier_of_dask(workers, made):
    X, y, _ = made
    objective = TopPushObjective(top=20)
    options = {"objective": objective, "n_estimators": 10, "max_depth": 4, "base_score": 0.5}
    one = xgboost.XGBClassifier(n_jobs=1, **options).fit(X, y)
    many = on_dask.DaskXGBClassifier(**options)
    many.client = workers
    many.fit(da.from_array(X, chunks=(500, 5)), da.from_array(y, chunks=500))
    margins = [one.predict(X, output_margin=True)]
    margins.append(many.get_booster().predict(xgboost.DMatrix(X), output_margin=True))
    assert_allclose(*margins, atol=1e-5)


def test_what_one_worker_refuses_all_refuse(workers, made):
    """With a sentence, and at once: nobody waits for numbers that do not come."""
    X, y, _ = made
    for labels, words in (
        (np.where(np.arange(N_ROWS) < 5, 2, y), "relabel the rows|Another worker refused"),
        (np.zeros_like(y), "give rows of both classes"),
    ):
        with pytest.raises(ValueError, match=words):
            trained(workers, spread(workers, X, labels))


@pytest.mark.filterwarnings("ignore:Parameter n_jobs will be ignored")
def test_lightgbm_is_refused(workers, made):
    lightgbm = pytest.importorskip("lightgbm", reason="needs LightGBM, the extra [trees]")
    X, y, _ = made
    ranker = lightgbm.DaskLGBMClassifier(
        client=workers, objective=TopPushObjective(), n_estimators=2, verbosity=-1
    )
    X, y = da.from_array(X, chunks=(500, 5)), da.from_array(y, chunks=500)
    with pytest.raises(ValueError, match=r"LightGBM.*\d machines.*xgboost\.dask"):
        ranker.fit(X, y)
