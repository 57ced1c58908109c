"""scikit-learn's callback protocol, where the installed version has one (1.9 and later)."""

from typing import TYPE_CHECKING

from sklearn.base import BaseEstimator

from toppush.types import Array

if TYPE_CHECKING:
    from toppush.estimators.base import TrainingRows

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""


__all__ = ["CallbackSupportMixin", "FitTasks", "fit_tasks"]


class FitTasks:
    """A fit as one task with a subtask for each iteration, told to the estimator's callbacks."""

    def __init__(
        self, estimator: BaseEstimator, given: "TrainingRows", *, max_iter: int | None
    ) -> None:
        self._told = {"estimator": estimator, "X": given.rows.given, "y": given.y}
        self._classes = given.classes
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


def fit_tasks(
    estimator: BaseEstimator, given: "TrainingRows", *, max_iter: int | None
) -> FitTasks | None:
    """The fit's tasks if anyone listens; `max_iter` is None if no one knows how many."""
    if not getattr(estimator, "_skl_callbacks", None):
        return None
    return FitTasks(estimator, given, max_iter=max_iter)
