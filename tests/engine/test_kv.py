"""Keys and values in numbers of one byte: where they are refused, and what becomes of a number that is kept."""

from typing import Final

import pytest
import torch

from engine.config import EngineConfig, KvDtype
from engine.errors import EngineError
from engine.kv import check, keep

TORCH: Final = {"fp8": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


def asked(kv_dtype: KvDtype, device: str = "cuda", attention: str = "auto") -> EngineConfig:
    return EngineConfig(
        pages=1, max_context=16, kv_dtype=kv_dtype, device=device, attention=attention
    )


def test_what_a_gpu_has_no_numbers_for_is_refused_with_what_it_has() -> None:
    with pytest.raises(
        EngineError,
        match=r"kv_dtype fp8 needs a GPU of compute capability 8\.9 or later, cuda has 8\.0: "
        "there kv_dtype fp8_e5m2 works",
    ):
        check(asked("fp8"), (8, 0))
    check(asked("fp8_e5m2"), (8, 0))
    check(asked("fp8_e4m3"), (8, 9))
    check(asked("fp8"), (9, 0))
    check(asked("auto"), (7, 0))


@pytest.mark.parametrize(("device", "attention"), [("cpu", "auto"), ("cuda", "sdpa")])
def test_a_backend_that_reads_the_models_own_numbers_is_refused_them(
    device: str, attention: str
) -> None:
    with pytest.raises(EngineError, match=rf"needs attention triton; on {device} it is sdpa"):
        check(asked("fp8_e5m2", device, attention), None)
    check(asked("auto", device, attention), None)


@pytest.mark.parametrize("kv_dtype", TORCH)
def test_a_number_is_kept_as_the_nearest_that_there_is(kv_dtype: str) -> None:
    """Found by looking at all 256 of them; and a number beyond the largest does not become infinite."""
    kind = TORCH[kv_dtype]
    every = torch.arange(256, dtype=torch.uint8).view(kind).double()
    every = every[every.isfinite()]
    torch.manual_seed(0)
    k_T11 = torch.cat((torch.randn(500) * 20, torch.tensor([1e9, -1e9, 0.0])))[:, None, None]
    kv = torch.zeros(52, 10, 2, 1, 1, dtype=kind)
    slots_T = torch.randperm(520)[: len(k_T11)]
    keep(kv, slots_T, k_T11, -k_T11)
    kept_T2 = kv.view(torch.uint8).view(520, 2)[slots_T].view(kind).double()
    nearest_T = every[(k_T11.view(-1, 1).double() - every).abs().argmin(1)]
    assert torch.equal(kept_T2, torch.stack((nearest_T, -nearest_T), 1))
    rest = kv.view(torch.uint8).view(520, 2).sum(1) > 0
    assert int(rest.sum()) <= len(k_T11), "nothing else is touched"
