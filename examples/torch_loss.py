"""
A loss for your own training loop
=================================

**The task.** Rank noisy pictures of digits, of which one in forty is an eight, so that the eights come first, by a
network that you train in torch with your own loop.

`toppush.torch.TopPushLoss` takes the scores and labels of a batch, from any sampler and with any optimiser.
It needs torch: ``pip install 'toppush[gpu]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from toppush.metrics import average_precision, positives_at_top
from toppush.torch import TopPushLoss

images, digit = load_digits(return_X_y=True)
eight, rng = digit == 8, np.random.default_rng(0)
kept = ~eight | (np.cumsum(eight) % 4 == 0)
noisy = images + 3.0 * rng.normal(size=images.shape)  # a pixel's values go from 0 to 16
noisy = noisy[kept].astype(np.float32).reshape(-1, 1, 8, 8) / 16.0
X, X_test, y, y_test = train_test_split(
    noisy, eight[kept], test_size=0.5, random_state=0, stratify=eight[kept]
)

# %%
# An ordinary loop. Only the line with the loss is new.


def train(loss, epochs=15):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 16, 32), nn.ReLU(), nn.Linear(32, 1),
    )  # fmt: skip
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-3)
    rows = TensorDataset(torch.tensor(X), torch.tensor(y, dtype=torch.float32))
    for _ in range(epochs):
        for batch, label in DataLoader(rows, batch_size=64, shuffle=True):
            optimiser.zero_grad()
            loss(net(batch)[:, 0], label).backward()
            optimiser.step()
    with torch.no_grad():
        return net.eval()(torch.tensor(X_test))[:, 0].double().numpy()


torch.set_num_threads(1)
rankings = {
    "TopPushLoss": train(TopPushLoss(top=0.1)),
    "cross-entropy": train(nn.BCEWithLogitsLoss()),
}
for name, scores in rankings.items():
    at_top, mean = positives_at_top(y_test, scores), average_precision(y_test, scores)
    print(f"{name:14} Pos@Top {at_top:.3f}  average precision {mean:.3f}")

# %%
# The first ten pictures of both rankings; a red frame marks a false alarm.

figure, rows = plt.subplots(2, 10, figsize=(8, 2.4), layout="constrained")
for (name, scores), axes in zip(rankings.items(), rows, strict=True):
    axes[0].set_title(name, loc="left", fontsize=10)
    for place, row in zip(axes, np.argsort(-scores), strict=False):
        place.imshow(X_test[row, 0], cmap="gray_r")
        place.set(xticks=[], yticks=[])
        if not y_test[row]:
            place.spines[:].set(color="red", linewidth=3)

# %%
# **What to conclude.** The loss works in an existing training loop. With about twenty eights, two trainings also
# differ by chance: repeat with other seeds, or compare with intervals (`toppush.compare`) before you decide.
