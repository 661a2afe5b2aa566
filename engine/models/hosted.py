"""Any decoder that `transformers` has, run through its own modules over our paged KV.

Shapes: T tokens, H hidden, V vocabulary, N positions whose logits are wanted.
"""

import inspect
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, logging

from engine.attention import Attend
from engine.batch import Batch
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.models.config import ModelConfig
from engine.models.features import first_line
from engine.models.hosted_attention import NAME, Pages, visiting
from engine.models.hosted_trial import tried
from engine.ranks import ALONE, Ranks
from engine.weights import files


class Hosted:
    """See `engine.models.Decoder`. `layers` are its attention layers, in the order in which they are called."""

    def __init__(self, module: Any, model: ModelConfig) -> None:  # noqa: ANN401  # transformers is untyped here
        self._module = module
        self._keeps = "logits_to_keep" in inspect.signature(module.forward).parameters
        self.layers = tried(self._run, model, next(module.parameters()).device)
        self._streams: dict[int, Tensor] = {}
        self._asked: frozenset[int] = frozenset()
        self._watch(model.layers)

    @staticmethod
    def fits(_model: ModelConfig) -> bool:
        """What it cannot do is refused where the configuration is read, or by the trial."""
        return True

    @classmethod
    def load(
        cls, folder: Path, model: ModelConfig, config: EngineConfig, ranks: Ranks = ALONE
    ) -> "Hosted":
        """See `engine.models.Architecture`. Over several ranks by the plan that `transformers` has for the model."""
        files(folder)
        own, count = ranks.shard.own(model), ranks.shard.ranks
        spread = _spread(model, count) if count > 1 else {}
        logging.disable_progress_bar()  # the log of a service is no place for one
        try:
            module, found = AutoModelForCausalLM.from_pretrained(
                folder,
                config=model.source,
                dtype=getattr(torch, config.dtype),
                attn_implementation=NAME,
                local_files_only=True,
                ignore_mismatched_sizes=True,  # they are reported, and then refused
                output_loading_info=True,
                trust_remote_code=config.trust_remote_code,
                use_safetensors=True,
                **spread,
            )
        except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
            raise EngineError(
                f"the model in {folder} cannot be loaded: {first_line(error)}"
            ) from error
        _check(folder, found)
        ranks.meet()
        made = cls(module.eval(), own)
        module.to(config.device)
        return made

    @torch.no_grad()
    def forward(
        self, batch: Batch, attend: Attend, kv: Sequence[Tensor], hidden: Collection[int]
    ) -> tuple[Tensor, Mapping[int, Tensor]]:
        """See `engine.models.Decoder`."""
        self._asked, self._streams = frozenset(hidden), {}
        with visiting(Pages(self.layers, attend, kv, batch.slots_T)):
            logits_NV = self._run(batch.ids_T, batch.positions_T, batch.wanted_N)
        return logits_NV, {k: self._streams[k] for k in hidden}

    def _run(self, ids_T: Tensor, positions_T: Tensor, wanted_N: Tensor) -> Tensor:
        """Logits [N, V]."""
        kept = {"logits_to_keep": wanted_N} if self._keeps else {}
        output = self._module(
            input_ids=ids_T[None], position_ids=positions_T[None], use_cache=False, **kept
        )
        logits_XV: Tensor = output.logits[0]
        return logits_XV if self._keeps else logits_XV.index_select(0, wanted_N)

    def _watch(self, count: int) -> None:
        """Note what enters the first block of the decoder, what leaves each of them, and what the last norm leaves."""
        blocks = _blocks(self._module, count)
        blocks[0].register_forward_pre_hook(self._entered, with_kwargs=True)
        for index, block in enumerate(blocks):
            block.register_forward_hook(partial(self._left, index + 1))
        self._module.base_model.register_forward_hook(partial(self._left, count + 1))

    def _entered(self, _: nn.Module, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        if 0 in self._asked:
            self._streams[0] = _stream(given or (named["hidden_states"],))

    def _left(self, stream: int, _: nn.Module, __: object, output: Any) -> None:  # noqa: ANN401
        if stream in self._asked:
            self._streams[stream] = _stream(output)


def _spread(model: ModelConfig, ranks: int) -> Mapping[str, Any]:
    """What `transformers` is told so that each rank of torch.distributed loads its part; or EngineError."""
    from transformers.distributed import DistributedConfig  # noqa: PLC0415  # seconds to import
    from transformers.distributed.tensor_parallel import get_kv_heads_per_rank  # noqa: PLC0415

    plan = getattr(model.source, "base_model_tp_plan", None) or {}
    if get_kv_heads_per_rank(plan, model.kv_heads, ranks) != model.kv_heads // ranks:
        raise EngineError(
            f"{model.architecture} cannot span {ranks} ranks: "
            "transformers has no plan that deals out its attention heads"
        )
    if find_spec("accelerate") is None:
        raise EngineError(
            f"{model.architecture} over {ranks} ranks needs accelerate: pip install 'draftmesh[ranks]'"
        )
    return {"distributed_config": DistributedConfig(tp_size=ranks)}


def _stream(value: Any) -> Tensor:  # noqa: ANN401
    """The residual stream [T, H], which some blocks give alone and others first of several."""
    stream_1TH: Tensor = value if isinstance(value, Tensor) else value[0]
    return stream_1TH[0]


def _blocks(module: nn.Module, count: int) -> nn.ModuleList:
    """The list of the decoder's blocks: the first that is as long as the model is deep."""
    for each in module.modules():
        if isinstance(each, nn.ModuleList) and len(each) == count:
            return each
    raise EngineError(f"{type(module).__name__} is not served: it has no list of {count} blocks")


def _check(folder: Path, found: Mapping[str, Any]) -> None:
    """A tensor that does not fit is never made up."""
    faults = [
        *(f"{name} is missing" for name in sorted(found["missing_keys"])),
        *(f"{name} is unexpected" for name in sorted(found["unexpected_keys"])),
        *(f"{name} is {has}, not {wants}" for name, has, wants in sorted(found["mismatched_keys"])),
    ]
    if faults:
        raise EngineError(f"weights in {folder} do not fit the model: {'; '.join(faults)}")
