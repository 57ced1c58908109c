"""Files as their publishers keep them, read into rows and labels."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from toppush.system import libsvm
from toppush.system.extras import needs
from toppush.system.reading import DataError, opened_text
from toppush.types import Mask


class LabelledMatrix(NamedTuple):
    """A data set in memory: CSR with 32-bit indices, and which rows are positive."""

    X: sparse.csr_array
    y: Mask


def as_rows(X: sparse.sparray | ArrayLike, y: Mask) -> LabelledMatrix:
    """CSR with 32-bit indices from any matrix."""
    X = sparse.csr_array(X)
    if X.nnz < 2**31 and max(X.shape) < 2**31:
        X = sparse.csr_array(
            (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape
        )
    return LabelledMatrix(X, y)


def read_libsvm(paths: Sequence[Path], n_features: int, labels: Sequence[float]) -> LabelledMatrix:
    """LIBSVM files, one after the other."""
    parts = []
    for path in paths:
        try:
            parts.append(libsvm.read(path, first=1, width=n_features))
        except DataError as error:
            raise ValueError(
                f"{path} could not be read as LIBSVM data: {error} Fetch it again."
            ) from error
    target = np.concatenate([part.y for part in parts])
    return as_rows(sparse.vstack([part.X for part in parts]), np.isin(target, labels))


def read_table(path: Path) -> list[list[str]]:
    """Rows of a comma-separated file without blank lines."""
    with opened_text(path) as text:
        return [row for row in csv.reader(text) if row]


def read_numbers(paths: Sequence[Path], n_features: int, labels: Sequence[float]) -> LabelledMatrix:
    """Numbers, then 1 for a positive, perhaps in quotation marks: spambase and mammography."""
    table = np.array([[cell.strip("'") for cell in row] for row in read_table(paths[0])], float)
    return as_rows(table[:, :n_features], table[:, n_features] == 1.0)


def read_nslkdd(paths: Sequence[Path], n_features: int, labels: Sequence[float]) -> LabelledMatrix:
    """KDDTrain+.txt and KDDTest+.txt: 41 features, the attack's name, a difficulty.

    The numbers in their order without num_outbound_cmds, which is always 0; then protocol,
    service and flag, one column a value, in alphabetical order.
    """
    from sklearn.preprocessing import OneHotEncoder

    table = np.array([row[:42] for path in paths for row in read_table(path)], object)
    words, constant, attack = [1, 2, 3], 19, 41
    numbers = np.delete(table, [*words, constant, attack], axis=1).astype(float)
    one_hot = OneHotEncoder().fit_transform(table[:, words].astype(str))
    X = sparse.hstack([sparse.csr_array(numbers), one_hot])
    return as_rows(X, table[:, attack] != "normal")


def read_hiv(paths: Sequence[Path], n_features: int, labels: Sequence[float]) -> LabelledMatrix:
    """MoleculeNet's HIV.csv as binary Morgan fingerprints of radius 2; needs RDKit.

    The first of rows with equal SMILES counts; molecules that RDKit refuses are left out.
    """
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem import rdFingerprintGenerator
    except ImportError as error:
        raise ImportError(needs("making hiv-ecfp4", "rdkit")) from error
    rdBase.DisableLog("rdApp.*")
    header, *table = read_table(paths[0])
    smiles, active = header.index("smiles"), header.index("HIV_active")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=n_features)
    first = {row[smiles]: row[active] == "1" for row in reversed(table)}
    bits, y = [], []
    for row in dict.fromkeys(row[smiles] for row in table):
        molecule = Chem.MolFromSmiles(row)
        if molecule is not None:
            bits.append(np.asarray(generator.GetFingerprint(molecule).GetOnBits(), np.int32))
            y.append(first[row])
    ends = np.concatenate([[0], np.cumsum([len(one) for one in bits])])
    columns = np.concatenate(bits)
    X = sparse.csr_array((np.ones(len(columns)), columns, ends), (len(bits), n_features))
    return as_rows(X, np.array(y, bool))
