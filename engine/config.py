"""What an engine is told about its memory and its arithmetic."""

from dataclasses import dataclass
from typing import Literal

Dtype = Literal["float32", "bfloat16"]
Implementation = Literal["auto", "transformers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """`pages` of `page_size` positions are shared by sequences of at most `max_context` positions.

    `device` is cpu, cuda or cuda:N. `attention` names an entry of `engine.attention.BACKENDS`; auto is what suits the
    device. With `spare` there is one page more, which nothing is ever read from: that of tokens that pad a forward.
    `implementation` auto takes the lean one where there is one. Code that came with a checkpoint runs only if
    `trust_remote_code` is set. Logits of at most `overwritten` rows lie where the next forward writes its own; 0: each
    forward has its own.
    """

    pages: int
    max_context: int
    dtype: Dtype = "bfloat16"
    device: str = "cpu"
    page_size: int = 16
    spare: bool = False
    attention: str = "auto"
    implementation: Implementation = "auto"
    trust_remote_code: bool = False
    overwritten: int = 0
