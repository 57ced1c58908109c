"""What must hold where nothing but the wheel is installed: `python tests/bare.py` there."""

import sys
from importlib import metadata

import toppush

wanted = [one for one in metadata.requires("toppush") if "extra ==" not in one]
assert sorted(one.partition(">=")[0] for one in wanted) == ["numpy", "scikit-learn", "scipy"], (
    wanted
)
assert "sklearn" not in sys.modules, "importing toppush should not import scikit-learn"
assert toppush.__version__ == metadata.version("toppush")

from sklearn.datasets import load_breast_cancer  # noqa: E402

X, y = load_breast_cancer(return_X_y=True)
score = toppush.TopPush().fit(X / X.max(axis=0), y).score(X / X.max(axis=0), y)
assert score > 0.99, score
try:
    import toppush.files
except ImportError as error:
    said = str(error)
else:
    sys.exit("pyarrow is installed: something else is here besides the wheel")
assert said.endswith("pip install 'toppush[files]'"), said
print(f"toppush {toppush.__version__} with {', '.join(wanted)}: a list with {score:.4f}")
