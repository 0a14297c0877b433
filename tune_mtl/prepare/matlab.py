"""Variables of MATLAB files, of version 7.3 (which are HDF5) and of older ones."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

from tune_mtl.core.errors import UserError
from tune_mtl.prepare.source import Array

_HDF5 = b"MATLAB 7.3", b"\x89HDF"


def read_mat(path: Path) -> dict[str, Any]:
    """Return the variables of a file by name; fields of a struct in version 7.3 as ``struct/field``.

    Raises:
        UserError: if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            hdf5 = file.read(16).startswith(_HDF5)
        return _read_hdf5(path) if hdf5 else dict(loadmat(path))
    except ImportError:
        raise
    except Exception as error:  # of many kinds, for one and the same damage
        raise UserError(f"{path} cannot be read: {error}.") from None


def _read_hdf5(path: Path) -> dict[str, Any]:
    import h5py

    found: dict[str, Any] = {}

    def keep(name: str, part: Any) -> None:
        if isinstance(part, h5py.Dataset) and not name.startswith("#"):  # what only other variables refer to
            found[name] = np.asarray(part)

    with h5py.File(path, "r") as file:
        file.visititems(keep)
    return found


def whole_numbers(values: Any) -> Array | None:
    """Return ``values`` as a vector of whole numbers; None if they are anything else."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all() or (array != np.rint(array)).any():
        return None
    return array.ravel().astype(np.int64)
