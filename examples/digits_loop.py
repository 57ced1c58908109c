"""Images in a training loop of your own: TopPushLoss against cross-entropy on rare eights.

python examples/digits_loop.py
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from toppush.metrics import average_precision, positives_at_top
from toppush.torch import TopPushLoss

NOISE = 3.0
"""Of a pixel, whose values go from 0 to 16."""


def rare_eights(seed=0):
    """Noisy digits, 8 x 8, of which one in forty is an eight."""
    images, digit = load_digits(return_X_y=True)
    eight, rng = digit == 8, np.random.default_rng(seed)
    kept = ~eight | (np.cumsum(eight) % 4 == 0)
    noisy = images + NOISE * rng.normal(size=images.shape)
    return noisy[kept].astype(np.float32).reshape(-1, 1, 8, 8) / 16.0, eight[kept]


def network():
    """A small convolutional network with one score."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 16, 32), nn.ReLU(), nn.Linear(32, 1),
    )  # fmt: skip


def train(loss, images, labels, epochs=15):
    """An ordinary loop: batches as they come, any optimiser."""
    torch.manual_seed(0)
    net = network()
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-3)
    rows = TensorDataset(torch.tensor(images), torch.tensor(labels, dtype=torch.float32))
    for _ in range(epochs):
        for batch, label in DataLoader(rows, batch_size=64, shuffle=True):
            optimiser.zero_grad()
            loss(net(batch)[:, 0], label).backward()
            optimiser.step()
    return net.eval()


def main():
    """Print both measures for both losses."""
    torch.set_num_threads(1)
    images, y = rare_eights()
    images, others, y, y_test = train_test_split(
        images, y, test_size=0.5, random_state=0, stratify=y
    )
    losses = {"TopPushLoss": TopPushLoss(top=0.1), "cross-entropy": nn.BCEWithLogitsLoss()}
    for name, loss in losses.items():
        net = train(loss, images, y)
        with torch.no_grad():
            scores = net(torch.tensor(others))[:, 0].double().numpy()
        print(
            f"{name:14} Pos@Top {positives_at_top(y_test, scores):.3f}  "
            f"AP {average_precision(y_test, scores):.3f}"
        )


if __name__ == "__main__":
    main()
