"""The picture of the start page: the same rows in two orders, drawn for light and dark pages.

python docs/pictures/two_lists.py
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from toppush import TopRanker

HERE = Path(__file__).resolve().parent
LINE = 28
SHOWN = 3 * LINE
CROSS = np.array([-0.25, 0.25])
Colours = tuple[str, str, str]
COLOURS = {"light": ("#1f2328", "#0b6e4f", "#c4320a"), "dark": ("#e6edf3", "#3fb98a", "#ff7b54")}
"""Of text, hits and false alarms."""


def lists() -> dict[str, np.ndarray]:
    """Which of the held-out digits are eights, in the order of either ranker."""
    X, digit = load_digits(return_X_y=True)
    split = train_test_split(X, digit == 8, test_size=0.5, random_state=0, stratify=digit == 8)
    X_train, X_test, y_train, y_test = split
    rankers = {
        "logistic regression": make_pipeline(MinMaxScaler(), LogisticRegression()),
        "toppush": TopRanker(random_state=0),
    }
    orders = {}
    for name, ranker in rankers.items():
        scores = ranker.fit(X_train, y_train).decision_function(X_test)
        orders[name] = y_test[np.argsort(-scores, kind="stable")]
    return orders


def draw(orders: dict[str, np.ndarray], theme: str) -> None:
    """Lists as squares in lines, the top first; false alarms have another colour and a cross."""
    figure, axes = plt.subplots(figsize=(10, 3.9))
    for number, (name, order) in enumerate(orders.items()):
        draw_list(axes, -5.1 * number, name, order[:SHOWN], COLOURS[theme])
    axes.set(xlim=(-0.6, LINE), ylim=(-7.8, 1.8), aspect="equal")
    axes.axis("off")
    where = HERE / f"two-lists-{theme}.svg"
    figure.savefig(where, transparent=True, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def draw_list(axes: Axes, y: float, name: str, order: np.ndarray, colours: Colours) -> None:
    """One list with its title."""
    text, hit, alarm = colours
    title = f"{name}: {int(np.argmin(order))} hits before the first false alarm"
    axes.text(-0.4, y + 0.8, title, color=text, fontsize=17)
    for number, good in enumerate(order):
        row, place = divmod(number, LINE)
        at = place, y - 1.1 * row
        axes.add_patch(Rectangle(np.subtract(at, 0.42), 0.84, 0.84, color=hit if good else alarm))
        if not good:
            for slope in (1, -1):
                axes.plot(at[0] + CROSS, at[1] + slope * CROSS, color=text, lw=2)


if __name__ == "__main__":
    mpl.rcParams |= {"svg.hashsalt": "toppush", "svg.fonttype": "path"}
    both = lists()
    for theme in COLOURS:
        draw(both, theme)
