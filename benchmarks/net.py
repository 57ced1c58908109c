"""The same network trained with our loss, with cross-entropy and with the nearest losses of others.

    python -m benchmarks.net run [--splits 30] [--sets w8a,...] [--methods ...] [--device cuda]
        [--jobs 8] [--wheels FOLDER]     # goes on where results/net_trials.csv ends
    python -m benchmarks.net table       # results/net.csv

Splits are random, 2/3 to train and 1/3 to test, split s by seed s; ijcnn1 is thinned to 15,000
rows first. A fifth of the training rows is held out: every 25 steps it judges the network by
average precision, and the best of these is tested. One network (256 and 128 hidden units, columns
as in TopPushNet), the same 600 batches of 64 positives and 512 negatives for all, AdamW at 1e-3;
LibAUC's losses have optimisers of their own (SOPA, SOAP; Adam's steps at 1e-3), need the row
numbers, and take sigmoids; those of imbalanced-losses come after 100 steps of cross-entropy, and AP
with a temperature that falls from .5 to its default, as its authors advise. Every loss has its
default parameters, but the share of negatives that counts is 0.1 wherever there is such a
parameter. Cross-entropy weighs the classes of a batch as they are in all rows. `TopPushNet` and its
cross-entropy are the estimators as they are, with eight members and their own folds, trained on all
training rows.

LibAUC and imbalanced-losses are taken from the environment or from wheels in FOLDER (both are pure
Python); what is absent is skipped and said.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
import time
import types
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from scipy.stats import wilcoxon
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from benchmarks.common import recall_before, save, saved, show
from benchmarks.data import load
from toppush import TopPushNet
from toppush.metrics import average_precision, positives_at_top
from toppush.models.net_training import Shuffled
from toppush.tables.scaling import AsinhScaler
from toppush.torch import Scored, TopPushLoss, top_level

SETS = ["mammography", "w8a", "ijcnn1", "spambase", "diabetes"]
MEASURES = {
    "Pos@Top": positives_at_top,
    "recall before 3": lambda y, scores: recall_before(y, scores, 3),
    "recall before 10": lambda y, scores: recall_before(y, scores, 10),
    "AP": average_precision,
}
COLUMNS = ["set", "split", "method", *MEASURES, "seconds", "device"]
STEPS, CHECK, WARM, POSITIVES, NEGATIVES, TOP = 600, 25, 100, 64, 512, 0.1
THINNED = {"ijcnn1": 15_000}
OURS = "TopPush"


class Task:
    """Training rows of a split on the device, and their batches."""

    def __init__(self, X, y, seed, device):
        train, judge, self.y, self.y_judge = train_test_split(
            X, y, test_size=0.2, random_state=seed, stratify=y
        )
        self.columns, self.device = AsinhScaler.of(train), torch.device(device)
        self.rows, self.judge, self.seed = self.tensor(train), self.tensor(judge), seed
        rng = np.random.default_rng(seed)
        self.positives = Shuffled(np.flatnonzero(self.y), POSITIVES, rng)
        self.negatives = Shuffled(np.flatnonzero(~self.y), NEGATIVES, rng)

    def tensor(self, X):
        return torch.tensor(self.columns.transform(X), dtype=torch.float32, device=self.device)

    def batch(self):
        """Row numbers, positives first, and labels."""
        rows = np.concatenate([self.positives.draw(), self.negatives.draw()])
        index = torch.from_numpy(rows).to(self.device)
        return index, torch.from_numpy(self.y[rows]).to(self.device)


def cross_entropy(task, parameters):
    of_positives = task.positives.rows_for_each / len(task.y)
    of_negatives = task.negatives.rows_for_each / len(task.y)

    def loss(scores, labels, index):
        weight = torch.where(labels, of_positives, of_negatives)
        return (weight * softplus(torch.where(labels, -scores, scores))).sum()

    return loss, adamw(parameters)


def top_push(task, parameters):
    push = TopPushLoss(TOP).to(task.device)
    return lambda scores, labels, index: push(scores, labels), adamw(parameters)


def top_push_with_slopes_of_parts(task, parameters):
    """The loss of the batch, with the gradient that goes through each negative's part, too."""

    def loss(scores, labels, index):
        negatives = scores[~labels]
        fixed = top_level(Scored(negatives.detach(), torch.ones_like(negatives)), TOP, 0.5)
        above = torch.sigmoid((negatives - fixed) / 0.5)
        slope = (above * (1 - above)).detach().sum() / 0.5
        level = fixed + (above.sum() - TOP * len(negatives)) / slope  # 0, with the level's slope
        part = torch.sigmoid((negatives - level) / 0.5)
        return (softplus(negatives - scores[labels][:, None]) @ (part / part.sum())).mean()

    return loss, adamw(parameters)


def partial_auc_of_libauc(task, parameters):
    libauc("losses.auc"), libauc("optimizers.sopa")
    from libauc.losses.auc import pAUC_CVaR_Loss
    from libauc.optimizers.sopa import SOPA

    loss = pAUC_CVaR_Loss(len(task.y), int(task.y.sum()), beta=TOP, device=task.device)
    return of_sigmoids(loss), SOPA(parameters, mode="adam", lr=1e-3, device=task.device)


def average_precision_of_libauc(task, parameters):
    libauc("losses.auc"), libauc("optimizers.soap")
    from libauc.losses.auc import AveragePrecisionLoss
    from libauc.optimizers.soap import SOAP

    loss = AveragePrecisionLoss(len(task.y), device=task.device)
    optimiser = SOAP(parameters, mode="adam", lr=1e-3, verbose=False, device=task.device)
    return of_sigmoids(loss), optimiser


def smooth_ap(task, parameters):
    from imbalanced_losses import SmoothAPLoss

    return warmed(SmoothAPLoss(1), (0.5, 0.01), task), adamw(parameters)


def partial_auc_at_budget(task, parameters):
    from imbalanced_losses import PAUCAtBudgetLoss

    return warmed(PAUCAtBudgetLoss(1, beta=TOP), (0.1, 0.1), task), adamw(parameters)


def warmed(loss, temperatures, task):
    """Cross-entropy first, then over to a loss of imbalanced-losses, as its authors advise."""
    from imbalanced_losses import LossWarmupWrapper

    wrapped = LossWarmupWrapper(
        OnColumns(),
        loss,
        warmup_steps=WARM,
        blend_steps=WARM // 2,
        temp_start=temperatures[0],
        temp_end=temperatures[1],
        temp_decay_steps=STEPS - WARM,
    ).to(task.device)
    steps = count()

    def of_batch(scores, labels, index):
        wrapped.on_train_batch_start(next(steps))
        return wrapped(scores[:, None], labels.long())

    return of_batch


class OnColumns(nn.Module):
    def forward(self, logits, targets):
        return binary_cross_entropy_with_logits(logits[:, 0], targets.float())


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-2)


def of_sigmoids(loss):
    return lambda scores, labels, index: loss(torch.sigmoid(scores), labels.float(), index)


@cache
def libauc(module):
    """Import a part of LibAUC, which asks for tqdm, of which these parts use nothing."""
    try:
        import tqdm  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("tqdm")
        stand_in.tqdm = stand_in.trange = iter
        sys.modules["tqdm"] = stand_in
    __import__(f"libauc.{module}")


LOSSES: dict[str, Callable] = {
    OURS: top_push,
    "TopPush, parts not fixed": top_push_with_slopes_of_parts,
    "cross-entropy": cross_entropy,
    "LibAUC, partial AUC": partial_auc_of_libauc,
    "LibAUC, AP": average_precision_of_libauc,
    "imbalanced-losses, AP": smooth_ap,
    "imbalanced-losses, partial AUC": partial_auc_at_budget,
}
ENSEMBLES = {"TopPushNet": "pairwise", "TopPushNet, cross-entropy": "cross_entropy"}
PACKAGES = {"LibAUC": "libauc", "imbalanced-losses": "imbalanced_losses"}


def trained(task, make):
    """Scores of dense rows by the network that the held-out rows like best."""
    torch.manual_seed(task.seed)
    sizes = task.rows.shape[1], 256, 128
    layers = [nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(sizes[2], 1)).to(task.device)
    loss, optimiser = make(task, net.parameters())
    best, kept = -1.0, None
    for step in range(1, STEPS + 1):
        index, labels = task.batch()
        optimiser.zero_grad()
        loss(net(task.rows[index])[:, 0], labels, index).backward()
        optimiser.step()
        if step % CHECK == 0:
            quality = average_precision(task.y_judge, scores_of(net, task.judge))
            if quality > best:
                best = quality
                kept = {name: value.clone() for name, value in net.state_dict().items()}
    net.load_state_dict(kept)
    return lambda X: scores_of(net, task.tensor(X))


@torch.no_grad()
def scores_of(net, rows):
    return np.nan_to_num(net(rows)[:, 0].double().cpu().numpy(), nan=-1e30)


def fit(method, X, y, seed, device):
    """A function from dense rows to scores."""
    if method in ENSEMBLES:
        net = TopPushNet(TOP, loss=ENSEMBLES[method], device=device, random_state=seed, n_jobs=1)
        return net.fit(X, y).decision_function
    return trained(Task(X, y, seed, device), LOSSES[method])


@cache
def rows_of(name):
    X, y = load(name)
    X = X.toarray()
    if name in THINNED:
        X, _, y, _ = train_test_split(X, y, train_size=THINNED[name], random_state=0, stratify=y)
    return X, y


def trial(name, split, method, device):
    """A row of the table."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    X_train, X_test, y_train, y_test = train_test_split(
        *rows_of(name), test_size=1 / 3, random_state=split, stratify=rows_of(name)[1]
    )
    clock = time.process_time if device == "cpu" else time.perf_counter
    began = clock()
    model = fit(method, X_train, y_train, split, device)
    seconds = round(clock() - began, 2)
    scores = model(X_test)
    measures = [round(float(measure(y_test, scores)), 6) for measure in MEASURES.values()]
    return [name, split, method, *measures, seconds, device]


def add_wheels(folder):
    """Packages from wheels, in this process and in those that it starts."""
    wheels = [str(path) for path in sorted(Path(folder).glob("*.whl"))] if folder else []
    sys.path[:0] = wheels


def available(methods):
    """The methods whose packages are here; the others are named."""
    found = []
    for method in methods:
        package = PACKAGES.get(method.partition(",")[0])
        try:
            if package == "libauc":
                libauc("losses.auc")
            elif package is not None:
                __import__(package)
            found.append(method)
        except ImportError as error:
            print(f"SKIPPED {method}: {error}; pass --wheels with a folder that holds {package}")
    return found


def run(arguments):
    """Every trial that the CSV does not hold yet."""
    rows = [list(row.values()) for row in saved("net_trials")]
    done = {(row[0], int(row[1]), row[2]) for row in rows}
    todo = [
        (name, split, method, arguments.device)
        for split in range(arguments.first, arguments.first + arguments.splits)
        for name in arguments.sets.split(",")
        for method in available(arguments.methods.split("; "))
        if (name, split, method) not in done
    ]
    context = get_context("spawn")
    with ProcessPoolExecutor(
        arguments.jobs, context, initializer=add_wheels, initargs=(arguments.wheels,)
    ) as pool:
        futures = {pool.submit(trial, *each): each for each in todo}
        for future in as_completed(futures):
            if (error := future.exception()) is not None:
                print("FAILED", *futures[future], repr(error), flush=True)
                continue
            rows.append(future.result())
            print(*rows[-1], flush=True)
            save("net_trials", COLUMNS, sorted(rows, key=lambda row: (row[0], int(row[1]), row[2])))


def summary():
    """Means and medians of every method, and its differences from ours in the same splits."""
    trials = {(row["set"], int(row["split"]), row["method"]): row for row in saved("net_trials")}
    table = []
    for name in dict.fromkeys(key[0] for key in trials):
        for method in [*LOSSES, *ENSEMBLES]:
            ours = "TopPushNet" if method in ENSEMBLES else OURS
            splits = sorted(
                split for set_, split, one in trials
                if (set_, one) == (name, method) and (name, split, ours) in trials
            )  # fmt: skip
            if splits:
                pairs = [(trials[name, s, method], trials[name, s, ours]) for s in splits]
                table.append([name, method, len(splits), *compared(pairs)])
    columns = ["set", "method", "splits"]
    for measure in MEASURES:
        columns += [f"{measure} {what}" for what in ("mean", "median", "less ours", "p")]
    save("net", [*columns, "seconds"], table)
    brief = [0, 1, 2, *(3 + 4 * at + part for at in range(len(MEASURES)) for part in (0, 2, 3)), -1]
    show([[*columns, "seconds"][at] for at in brief], [[row[at] for at in brief] for row in table])


def compared(pairs):
    """Mean, median, mean difference and Wilcoxon's p of each measure, then median seconds."""
    cells = []
    for measure in MEASURES:
        theirs, ours = (np.array([float(row[measure]) for row in side]) for side in zip(*pairs))  # noqa: B905
        less = theirs - ours
        p = float(wilcoxon(less).pvalue) if np.count_nonzero(less) > 5 else float("nan")
        cells += [theirs.mean(), float(np.median(theirs)), less.mean(), p]
    seconds = float(np.median([float(row["seconds"]) for row, _ in pairs]))
    return [*(float(f"{cell:.4g}") for cell in cells), seconds]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="seed of the first split")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--methods", default="; ".join([*LOSSES, *ENSEMBLES]))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--wheels", help="folder of wheels of LibAUC and imbalanced-losses")
    arguments = parser.parse_args()
    add_wheels(arguments.wheels)
    if arguments.what == "run":
        run(arguments)
    summary()


if __name__ == "__main__":
    main()
