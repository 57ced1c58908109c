"""Data in parts for a fit on a Dask cluster; needs the extra `dask`.

>>> from distributed import Client  # doctest: +SKIP
>>> from toppush import TopPush, cluster  # doctest: +SKIP
>>> client = Client("tcp://scheduler:8786")  # doctest: +SKIP
>>> X, y = cluster.read_parquet("rows/*.parquet", label="y")  # doctest: +SKIP
>>> ranker = TopPush().fit(X, y)  # doctest: +SKIP
"""

try:
    from toppush.designs.cluster import LostRows
    from toppush.designs.cluster.files import read_libsvm, read_parquet
except ImportError as error:
    raise ImportError(
        "toppush.cluster needs dask and distributed: pip install 'toppush[dask]'."
    ) from error

__all__ = ["LostRows", "read_libsvm", "read_parquet"]
