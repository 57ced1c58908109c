"""A table: networks with the push to the top against the same networks with cross-entropy.

python examples/tabular_net.py
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from toppush import TopPushNet
from toppush.metrics import average_precision, positives_at_top


def rare_and_noisy(seed=0):
    """Breast cancer with one malignant case in ten, and columns blurred by noise."""
    X, y = load_breast_cancer(return_X_y=True)
    malignant, rng = y == 0, np.random.default_rng(seed)
    kept = ~malignant | (np.cumsum(malignant) % 5 == 0)
    blurred = X + 1.5 * X.std(axis=0) * rng.normal(size=X.shape)
    return blurred[kept], malignant[kept]


def main():
    """Print both measures for both losses."""
    X, y = rare_and_noisy()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    for loss in ("pairwise", "cross_entropy"):
        net = TopPushNet(loss=loss, n_members=4, hidden=(64, 32), max_steps=300).fit(X, y)
        scores = net.decision_function(X_test)
        print(
            f"{loss:14} Pos@Top {positives_at_top(y_test, scores):.3f}  "
            f"AP {average_precision(y_test, scores):.3f}"
        )


if __name__ == "__main__":
    main()
