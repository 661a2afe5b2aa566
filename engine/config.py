"""What an engine is told about its memory and its arithmetic."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Dtype = Literal["float32", "bfloat16"]
KvDtype = Literal["auto", "fp8", "fp8_e4m3", "fp8_e5m2"]
SHORT: Final[Mapping[str, str]] = {
    "fp8": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}
"""Numbers of one byte, as servers call them and as torch does."""


def kv_numbers(kv_dtype: KvDtype, dtype: Dtype) -> str:
    """What pages hold, as torch calls it; `auto` is what the model computes in."""
    return SHORT.get(kv_dtype, dtype)


Implementation = Literal["auto", "transformers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """`pages` of `page_size` positions are shared by sequences of at most `max_context` positions.

    `device` is cpu, cuda or cuda:N. `attention` names an entry of `engine.attention.BACKENDS`; auto is what suits the
    device. With `spare` there is one page more, which nothing is ever read from: that of tokens that pad a forward.
    Keys and values are kept as `kv_dtype`; auto is `dtype`. `implementation` auto takes the lean one where there is
    one. Code that came with a checkpoint runs only if `trust_remote_code` is set. Logits of at most `overwritten` rows
    lie where the next forward writes its own; 0: each forward has its own.
    """

    pages: int
    max_context: int
    dtype: Dtype = "bfloat16"
    kv_dtype: KvDtype = "auto"
    device: str = "cpu"
    page_size: int = 16
    spare: bool = False
    attention: str = "auto"
    implementation: Implementation = "auto"
    trust_remote_code: bool = False
    overwritten: int = 0

    @property
    def kv_numbers(self) -> str:
        """See the function."""
        return kv_numbers(self.kv_dtype, self.dtype)
