"""What the code of the pages speaks of: a folder of files, and names that stand for the reader's.

The rows are made: frauds have greater amounts, and come from some countries more than from others.
"""

import warnings
from pathlib import Path

import numpy as np

EXCHANGED = {
    "any-model.md": {"threshold(0.001)": "threshold(0.1)"},
    "networks.md": {'device="cuda"': "device=None, n_members=2, max_steps=20"},
    "scaling.md": {
        'Client("tcp://scheduler:8786")': (
            'Client(processes=False, dashboard_address="127.0.0.1:0")'
        ),
        'memory_limit="2GiB"': 'memory_limit="8GiB"',
        "TopRanker()": 'TopRanker(members=["linear"])',
    },
}
"""What a page says for a machine that the tests do not have, and what they run instead."""


def table(n_rows, seed):
    """A data frame of payments."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    fraud = rng.random(n_rows) < 0.1
    amount = np.round(np.exp(rng.normal(4.0 + 1.5 * fraud, 1.0)), 2)
    age = np.where(rng.random(n_rows) < 0.1, np.nan, rng.integers(18, 90, size=n_rows))
    where = np.where((fraud & (rng.random(n_rows) < 0.5)) | (np.arange(n_rows) % 50 == 0), "NG", "")
    country = np.where(where == "", rng.choice(["DE", "FR", "US"], size=n_rows), where)
    scores = {
        name: np.round(fraud + noise * rng.normal(size=n_rows), 3)
        for name, noise in (("score", 0.2), ("ours", 0.3), ("theirs", 0.7), ("lightgbm", 0.6))
    }
    columns = {
        "id": np.arange(n_rows), "amount": amount, "age": age, "country": country,
        "branch": rng.choice(["north", "south", "west"], size=n_rows), "day": np.arange(n_rows) % 5,
        "fraud": np.where(fraud, "yes", "no"), "vendor": scores["theirs"], **scores,
    }  # fmt: skip
    return pd.DataFrame(columns)


FEATURES = ["id", "amount", "age", "country", "branch", "day", "fraud"]


def write_files(folder: Path) -> None:
    """Tables, models and matrices under the names that the pages use."""
    from toppush import files

    table(600, 0)[FEATURES].to_csv(folder / "train.csv", index=False)
    for name in ("held-out", "held", "scored", "february"):
        table(400, 1).to_csv(folder / f"{name}.csv", index=False)
    for name in ("this-week", "march"):
        table(400, 4).to_csv(folder / f"{name}.csv", index=False)
    table(300, 2)[FEATURES[:-1]].to_csv(folder / "new.csv", index=False)
    table(300, 2)[FEATURES[:-1]].to_parquet(folder / "new.parquet")
    model = files.fit(folder / "train.csv", label="fraud", drop=["id"], lam=0.01, top=0.1)
    files.save(model, folder / "fraud.toppush")
    np.save(folder / "rows.npy", numbers()[0])
    write_skops(folder)


def write_skops(folder: Path) -> None:
    """Two estimators of scikit-learn's kind."""
    import skops.io
    from lightgbm import LGBMClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = table(600, 0)
    X, y = rows[["amount", "day"]].astype(float), rows["fraud"]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    skops.io.dump(pipeline.fit(X, y), folder / "model.skops")
    lgbm = LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1)
    skops.io.dump(lgbm.fit(X, y), folder / "lgbm.skops")


def numbers():
    """Rows of numbers with labels."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(400, 3)), np.arange(400) < 60
    X[y] += 1.5
    return X, y


def split_numbers():
    """Two fitted rankers, and rows to train and to test them with."""
    from lightgbm import LGBMClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = numbers()
    train, test = np.arange(400) % 2 == 0, np.arange(400) % 2 == 1
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[train], y[train])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lgbm = LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1).fit(X[train], y[train])
    return {
        "pipeline": pipeline, "ranker": pipeline, "lgbm": lgbm,
        "X_train": X[train], "y_train": y[train], "X_test": X[test], "y_test": y[test],
        "scores": X[test].sum(axis=1),
    }  # fmt: skip


def of_additive():
    import pandas as pd

    X, y = numbers()
    return {"X": pd.DataFrame(X, columns=["age", "amount", "days"]), "y": y}


def of_auto():
    rows = table(600, 0)
    features = rows[["amount", "age", "country", "branch"]]
    return {"table": features, "y": rows["fraud"] == "yes", "new_table": features[:20]}


def of_budgets():
    rows = table(2000, 1)
    return {"y": rows["fraud"] == "yes", "scores": rows["score"], "branch": rows["branch"]}


def of_explain():
    from toppush import TopPush

    X, y = numbers()
    ranker = TopPush(top=0.1).fit(X, y)
    return {
        "rows": table(300, 2)[:5], "ranker": ranker, "X": X, "y": y, "new": X[:3],
        "some": np.arange(400) < 10,
    }  # fmt: skip


def of_guide():
    made = split_numbers()
    return made | {name: np.where(made[name], "bad", "good") for name in ("y_train", "y_test")}


def of_networks():
    import torch

    torch.set_num_threads(1)
    X, y = numbers()
    batch = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    return {"net": torch.nn.Linear(3, 1), "batches": [batch], "X": X, "y": y, "X_new": X[:5]}


def of_nonlinear():
    made = of_auto()
    return {"frame": made["table"], "y": made["y"], "new": made["new_table"]}


def of_report():
    made = split_numbers()
    labels = np.where(made["y_test"], "fraud", "fine")
    return made | {"labels": labels, "first_rows": [{"id": number} for number in range(10)]}


def of_scaling():
    import pandas as pd

    X, y = numbers()
    Path("rows").mkdir()
    for part in range(2):
        rows = pd.DataFrame(X[part::2], columns=["a", "b", "c"]).assign(y=y[part::2])
        rows.to_parquet(f"rows/part-{part}.parquet")
    return {"y": y}


WORLDS = {
    "additive.md": of_additive,
    "any-model.md": split_numbers,
    "auto.md": of_auto,
    "budgets.md": of_budgets,
    "explain.md": of_explain,
    "guide.md": of_guide,
    "networks.md": of_networks,
    "nonlinear.md": of_nonlinear,
    "report.md": of_report,
    "scaling.md": of_scaling,
    "monitoring.md": of_explain,
}
"""By page what its code takes for granted."""
