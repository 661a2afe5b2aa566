"""Many arrays in one copy: what goes up is what is there, and what comes down is what was."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from engine.upload import ALIGNED, download, upload


def test_arrays_of_all_kinds_share_a_block() -> None:
    arrays: dict[str, npt.NDArray[Any]] = {
        "bytes": np.arange(3, dtype=np.uint8),
        "longs": np.array([[-1, 2**40], [3, 4]], np.int64),
        "none": np.zeros((0, 5), np.float32),
        "doubles": np.array([0.1, 1e300]),
    }
    there = upload(arrays, "cpu")
    assert list(there) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(there[name].numpy(), array)
        assert there[name].storage_offset() * array.itemsize % ALIGNED == 0
    assert (
        there["longs"].untyped_storage().data_ptr() == there["bytes"].untyped_storage().data_ptr()
    )


def test_tensors_of_all_kinds_and_layouts_come_back() -> None:
    tensors = [
        torch.arange(6, dtype=torch.int32).view(2, 3).t(),
        torch.tensor([True, False, True]),
        torch.empty(0, 4),
        torch.tensor([[1.5], [torch.inf]], dtype=torch.float64),
        torch.tensor([2**62, -5]),
    ]
    found = download(tensors)
    for array, tensor in zip(found, tensors, strict=True):
        np.testing.assert_array_equal(array, tensor.numpy())
        assert array.dtype == tensor.numpy().dtype
    assert download([]) == []
