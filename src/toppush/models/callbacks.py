"""scikit-learn's callback protocol, where the installed version has one (1.9 and later)."""

from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from toppush.types import Array, Labels, Matrix

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""


__all__ = ["CallbackSupportMixin", "FitTasks"]


class FitTasks:
    """A fit as one task with a subtask for each iteration, told to the estimator's callbacks."""

    def __init__(
        self,
        estimator: BaseEstimator,
        X: Matrix,
        y: Labels,
        classes: NDArray[Any],
        max_iter: int | None,
    ) -> None:
        self._told, self._classes = {"estimator": estimator, "X": X, "y": y}, classes
        self._context = estimator._init_callback_context(max_subtasks=max_iter)
        self._context.call_on_fit_task_begin(**self._told)

    def iteration(self, weights: Array, threshold: float) -> bool:
        """Tell of an iteration; true if a callback asks to stop."""
        fitted = {"coef_": weights[None, :], "threshold_": threshold, "classes_": self._classes}
        task = self._context.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(**self._told)
        return bool(task.call_on_fit_task_end(**self._told, reconstruction_attributes=fitted))

    def end(self) -> None:
        """Tell that the fit is done."""
        self._context.call_on_fit_task_end(**self._told, reconstruction_attributes={})
