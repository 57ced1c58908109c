"""What kinds share that have a lam, a top and a certificate, chosen by folds unless given."""

from pathlib import Path
from typing import Any

from sklearn.base import clone

from toppush.models import choice as rules
from toppush.modeltypes.base import About, FitRows, Kind, Options, require_shapes, top_text
from toppush.modeltypes.certificates import solution
from toppush.system.reading import DataError
from toppush.tables.labels import LabelRule


class Searched(Kind):
    """A kind whose ranker is linear in something, with a proven gap."""

    takes: tuple[str, ...] = ("lam", "top", "cv", "scoring", "groups", "time", "threads")
    folds = 5
    """How many there are unless the option says."""

    def searched(self, options: Options) -> Options:
        """The ranker's lams, tops, folds and threads."""
        lam, top = options.get("lam", "cv"), options.get("top", "cv")
        return {
            "lams": None if lam == "cv" else [float(lam)],
            "tops": None if top == "cv" else (top,),
            "scoring": options.get("scoring"),
            "cv": options.get("cv", self.folds),
            "n_jobs": options.get("threads"),
        }

    def with_folds(self, options: Options, rows: FitRows, seed: int) -> Options:
        """Options with folds that respect groups or times in the place of their number."""
        if not rows.make_folds:
            return options
        return options | {"cv": rows.folds(options.get("cv", self.folds), seed)}

    def require_folds(self, options: Options, rows: FitRows) -> None:
        """Refuse more folds than there are rows of a class, if folds are to choose."""
        if "cv" in (options.get("lam", "cv"), options.get("top", "cv")):
            cv = options.get("cv", self.folds)
            require_folds(rows.rule, rows.n_positives, rows.n_rows, cv, rows.path)

    def ranker(self, options: Options, rows: FitRows, seed: int) -> Any:
        self.require_folds(options, rows)
        folded = self.with_folds(options, rows, seed)
        return self.class_(**self.searched(folded), **self.more(rows, seed))

    def more(self, rows: FitRows, seed: int) -> Options:
        """Other arguments of the ranker."""
        return {}

    def again(self, ranker: Any) -> Any:
        return clone(ranker).set_params(lams=[ranker.lam_], tops=[ranker.top_])

    def settings(self, ranker: Any, options: Options) -> About:
        chosen = hasattr(ranker, "best_score_")
        measure = getattr(ranker, "scoring", None) or rules.NAME
        return {
            "lam": float(ranker.lam_ if hasattr(ranker, "lam_") else ranker.lam),
            "top": ranker.top_,
            "chosen_by_cv": chosen,
            "cv_measure": measure if chosen else None,
            "cv_score": ranker.best_score_ if chosen else None,
            "cv": options.get("cv", self.folds),
        }

    def sentence(self, settings: About) -> str:
        how = (
            f"chosen by {settings['cv']}-fold cross-validation "
            f"({settings['cv_measure'].replace('_', ' ')} {settings['cv_score']:.3f})"
            if settings["chosen_by_cv"]
            else "as given"
        )
        return (
            f"{self.subject(settings)}lam {settings['lam']:.4g}, top "
            f"{top_text(settings['top'])} of the negatives, {how}{self.rest(settings)}."
        )

    def subject(self, settings: About) -> str:
        """What the model is, before its settings."""
        return ""

    def rest(self, settings: About) -> str:
        """What follows the settings."""
        return ""

    def lighten(self, ranker: Any) -> None:
        for name in ("solution_", "_skl_callbacks"):
            ranker.__dict__.pop(name, None)

    def n_weights(self, ranker: Any) -> int:
        """How many numbers the ranker makes of a row."""
        return int(ranker.n_features_in_)

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        require_shapes(ranker, coef_=(1, self.n_weights(ranker)))
        if (known := about.get("certificate")) is not None:
            ranker.solution_ = solution(known, ranker.coef_[0], float(ranker.threshold_))


def require_folds(rule: LabelRule, positives: int, rows: int, cv: int, path: str | Path) -> None:
    """Refuse more folds than the rarer class has rows: some would hold none of it out."""
    fewest = min(positives, rows - positives)
    if fewest < cv:
        raise DataError(
            f"{cv} folds are asked for with --cv, and there are {positives} positives "
            f"({rule.positive!r}) and {rows - positives} negatives; each fold needs one of each, "
            f"so ask for at most {fewest}" + (", or give --lam and --top." if fewest < 2 else "."),
            file=path,
        )
