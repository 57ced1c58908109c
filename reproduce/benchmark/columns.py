"""How competitors see the columns of a table: numbers, dates, categories and texts.

What a column is, is decided on the training rows. Numbers without missing values, scaled, for
models of numbers; a data frame of numbers and categories for boosted trees.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from sklearn.compose import make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

from toppush.matrices import is_sparse

DATE = r"^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[ T].*)?$"
WORDS, DISTINCT = 2.5, 0.2
"""Strings with more words on average, and a greater share of distinct values, are texts."""
COMPONENTS = 50
"""Of a text, for models that take numbers."""


def is_frame(X: Any) -> bool:
    """Whether rows are a data frame."""
    return hasattr(X, "columns")


@dataclass(frozen=True)
class Columns:
    """Names of a table's columns by what they hold."""

    numbers: Sequence[str]
    dates: Sequence[str]
    categories: Sequence[str]
    texts: Sequence[str]

    @classmethod
    def of(cls, X: Any) -> Self:
        """What the columns of the training rows hold."""
        numbers = list(X.select_dtypes(["number", "bool"]).columns)
        kinds: dict[str, list[str]] = {"dates": [], "categories": [], "texts": []}
        for name in X.columns.difference(numbers, sort=False):
            kinds[_kind(X[name].dropna().astype(str))].append(name)
        return cls(numbers, **kinds)


def _kind(strings: Any) -> str:
    if strings.str.match(DATE).mean() > 0.99:
        return "dates"
    is_long = strings.str.count(r"\S+").mean() > WORDS
    return "texts" if is_long and strings.nunique() > DISTINCT * len(strings) else "categories"


def text_columns(X: Any) -> Sequence[str]:
    """Columns of texts; none of a matrix."""
    return Columns.of(X).texts if is_frame(X) else []


def date_parts(X: Any) -> Any:
    """Days since 1970, month, weekday and hour of columns of dates."""
    import pandas

    parts: dict[str, Any] = {}
    for name in X.columns:
        dates = pandas.to_datetime(X[name], errors="coerce", utc=True)
        days = (dates - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(days=1)
        parts |= {f"{name} days": days, f"{name} month": dates.dt.month}
        parts |= {f"{name} weekday": dates.dt.day_of_week, f"{name} hour": dates.dt.hour}
    return pandas.DataFrame(parts, index=X.index).astype(float)


def _as_floats(X: Any) -> Any:
    return X.astype(float)


def _as_text(column: Any) -> Any:
    return column.fillna("").astype(str)


def scaled(X: Any, *, with_tf_idf: bool = False) -> Any:
    """A transformer to numbers for linear models and kernels; sparse rows over their largest.

    A category has a column for each of its values that occurs at least five times. Texts are the
    first components of TF-IDF weights, or these themselves.
    """
    if is_sparse(X):
        return MaxAbsScaler()
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    if not is_frame(X):
        return numbers
    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5)
    return _transformer(X, numbers, one_hot, with_tf_idf=with_tf_idf)


def unscaled(X: Any) -> Any:
    """A transformer to numbers for forests: categories are codes."""
    if not is_frame(X):
        return FunctionTransformer() if is_sparse(X) else SimpleImputer(strategy="median")
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1
    )
    return _transformer(X, SimpleImputer(strategy="median"), codes, with_tf_idf=False)


def _transformer(X: Any, numbers: Any, categories: Any, *, with_tf_idf: bool) -> Any:
    columns = Columns.of(X)
    return make_column_transformer(
        (make_pipeline(FunctionTransformer(_as_floats), numbers), columns.numbers),
        (make_pipeline(FunctionTransformer(date_parts), numbers), columns.dates),
        (categories, columns.categories),
        *((_text_numbers(with_tf_idf=with_tf_idf), name) for name in columns.texts),
    )


def _text_numbers(*, with_tf_idf: bool) -> Any:
    if with_tf_idf:
        weights = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
        return make_pipeline(FunctionTransformer(_as_text), weights)
    components = TruncatedSVD(COMPONENTS, random_state=0)
    return make_pipeline(FunctionTransformer(_as_text), TfidfVectorizer(), components)


class NativeColumns:
    """Numbers and categories as boosted trees take them; a matrix as it is.

    Parameters
    ----------
    X : DataFrame, array or CSR matrix
        The training rows.
    as_strings : bool
        Whether categories and texts stay strings, as for CatBoost. Otherwise categories are
        pandas' own, and texts are the first components of TF-IDF weights.
    """

    def __init__(self, X: Any, *, as_strings: bool = False) -> None:
        self.columns = Columns.of(X) if is_frame(X) else None
        self.as_strings = as_strings
        if self.columns is None:
            return
        self.values = {name: X[name].dropna().unique() for name in self.columns.categories}
        self.components = {
            name: _text_numbers(with_tf_idf=False).fit(X[name])
            for name in ([] if as_strings else self.columns.texts)
        }

    def __call__(self, X: Any) -> Any:
        """The rows, with columns that are named by what they hold and their number."""
        if self.columns is None:
            return X
        import pandas

        parts = [X[self.columns.numbers].astype(float), date_parts(X[self.columns.dates])]
        parts += [self._category(X, name) for name in self.columns.categories]
        if self.as_strings:
            parts += [_as_text(X[name]) for name in self.columns.texts]
        parts += [
            pandas.DataFrame(numbers.transform(X[name]), index=X.index)
            for name, numbers in self.components.items()
        ]
        frame = pandas.concat(parts, axis=1)
        return frame.set_axis([f"c{i}" for i in range(frame.shape[1])], axis=1)

    def _category(self, X: Any, name: str) -> Any:
        import pandas

        if self.as_strings:
            return X[name].fillna("missing").astype(str)
        values = self.values[name]
        known = X[name].where(X[name].isin(values))
        return pandas.Series(pandas.Categorical(known, values), X.index)

    def positions(self) -> tuple[list[str], list[str]]:
        """Names of categories and of texts in the frames of a model that takes strings."""
        if self.columns is None:
            return [], []
        first = len(self.columns.numbers) + 4 * len(self.columns.dates)
        last = first + len(self.columns.categories)
        n_texts = len(self.columns.texts)
        return (
            [f"c{i}" for i in range(first, last)],
            [f"c{i}" for i in range(last, last + n_texts)],
        )
