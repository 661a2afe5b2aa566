"""What cannot be served is refused where it is loaded, and the feature is named."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import torch
import transformers
from torch import Tensor

from engine.config import EngineConfig
from engine.errors import EngineError
from engine.models.config import ModelConfig
from engine.models.hosted_attention import Mask
from engine.models.hosted_trial import unlike
from engine.runner import Engine, Row
from tests.architectures import GROUPED, SHAPE, make
from tests.engine.test_models import close

# What a folder that is refused from its configuration alone says. The second part names the feature.
FEATURES: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "Mamba": ("MambaConfig", {}, "state-space or linear-attention layers"),
    "Bamba": ("BambaConfig", {}, "state-space"),
    "Qwen3Next": ("Qwen3NextConfig", {}, "state-space or linear-attention layers"),
    "Lfm2": ("Lfm2Config", {"layer_types": ["conv", "full_attention"]}, "convolution layers"),
    "RWKV": ("RwkvConfig", {}, "a recurrent state"),
    "Llama 4": ("Llama4TextConfig", {}, "chunked attention"),
    "DeepSeek-V3": ("DeepseekV3Config", {}, "a latent KV cache"),
    "BART": ("BartConfig", {}, "cross-attention"),
    "T5": ("T5Config", {}, "cross-attention"),
    "GPT-2 behind an encoder": ("GPT2Config", {"add_cross_attention": True}, "cross-attention"),
    "Gemma 3": ("Gemma3Config", {}, "multimodal input"),
    "Phi-4 multimodal": ("Phi4MultimodalConfig", {}, "multimodal input"),
    "LLaVA": ("LlavaConfig", {}, "multimodal input"),
    "Bloom": ("BloomConfig", {}, "attention that cannot be replaced"),
    "Falcon": ("FalconConfig", {}, "attention that cannot be replaced"),
    "ViT": ("ViTConfig", {}, "no causal language model in this version"),
}


def settings(**changes: Any) -> EngineConfig:
    common: dict[str, Any] = {"pages": 16, "page_size": 4, "max_context": 64, "dtype": "float32"}
    return EngineConfig(**(common | changes))


@pytest.mark.parametrize("name", FEATURES)
def test_a_configuration_with_a_feature_that_is_not_served(tmp_path: Path, name: str) -> None:
    kind, changes, feature = FEATURES[name]
    if kind == "Lfm2Config":
        changes = changes | {"num_hidden_layers": 2}
    getattr(transformers, kind)(**changes).save_pretrained(tmp_path)
    with pytest.raises(EngineError, match=f"is not served: it has .*{feature}"):
        Engine.load(tmp_path, settings())


def saved(model: Any, folder: Path) -> Path:  # noqa: ANN401
    model.save_pretrained(folder)
    return folder


def test_a_context_beyond_learned_positions(tmp_path: Path) -> None:
    folder = saved(make("GPT2LMHeadModel"), tmp_path)
    with pytest.raises(EngineError, match="300 exceeds the 256 positions for which the model has"):
        Engine.load(folder, settings(max_context=300))


def test_longrope_is_served_up_to_where_its_factors_change(tmp_path: Path) -> None:
    """The keys of a text would have to be computed anew where it grows longer than that."""
    rope = {
        "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.1] * 8, "long_factor": [4.0] * 8,
        "factor": 8.0,
    }  # fmt: skip
    config = transformers.Phi3Config(
        **(SHAPE | GROUPED), rope_parameters=rope, original_max_position_embeddings=40
    )
    torch.manual_seed(0)
    model = transformers.Phi3ForCausalLM(config).eval()
    folder = saved(model, tmp_path)
    assert ModelConfig.read(folder).positions == 40
    with pytest.raises(EngineError, match="41 exceeds the 40 positions up to which longrope"):
        Engine.load(folder, settings(max_context=41))
    text = [(7 * i) % 250 for i in range(30)]
    ours = Engine.load(folder, settings(max_context=40)).forward(
        [Row(text, 0, list(range(8)), len(text))]
    )
    with torch.no_grad():
        close(ours.logits_NV, model(torch.tensor([text])).logits[0])


def test_a_layer_that_mixes_tokens_outside_attention(tmp_path: Path) -> None:
    """Code that came with a model is not in any list: what it does is found out by trying it."""
    folder = code(tmp_path, "return out + out.roll(1, dims=1)")
    with pytest.raises(EngineError, match="layers that mix tokens, or count positions, outside"):
        Engine.load(folder, settings(trust_remote_code=True))


def test_a_model_that_fails_when_it_is_tried(tmp_path: Path) -> None:
    folder = code(tmp_path, 'raise RuntimeError("no such luck")')
    with pytest.raises(EngineError, match=r"a module that fails here \(no such luck\)"):
        Engine.load(folder, settings(trust_remote_code=True))


def test_code_that_came_with_a_model_runs_only_where_it_is_trusted(tmp_path: Path) -> None:
    folder = code(tmp_path, "return out + 1.0")
    with pytest.raises(
        EngineError, match="code of its own, which runs only with trust_remote_code"
    ):
        Engine.load(folder, settings())
    engine = Engine.load(folder, settings(trust_remote_code=True))
    text = [4, 9, 16, 25]
    ours = engine.forward([Row(text, 0, [0], 4)]).logits_NV
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=True
    ).eval()
    with torch.no_grad():
        torch.testing.assert_close(ours, theirs(torch.tensor([text])).logits[0])
        plain = make("LlamaForCausalLM")(torch.tensor([text])).logits[0]
    assert (ours - plain).abs().max() > 0.1


def code(folder: Path, ending: str) -> Path:
    """A Llama whose code lies in its folder, with other words at the end of every feed-forward block."""
    saved(make("LlamaForCausalLM"), folder)
    (folder / "own.py").write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n\n\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n\n\n"
        "class OwnForCausalLM(LlamaForCausalLM):\n"
        "    config_class = OwnConfig\n\n"
        "    def __init__(self, config):\n"
        "        super().__init__(config)\n"
        "        for layer in self.model.layers:\n"
        "            layer.mlp.register_forward_hook(self.after)\n\n"
        "    @staticmethod\n"
        f"    def after(_, __, out):\n        {ending}\n"
    )
    config = json.loads((folder / "config.json").read_text())
    names = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnForCausalLM"}
    config |= {"model_type": "own", "architectures": ["OwnForCausalLM"], "auto_map": names}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def causal(_: int, __: int, query: Tensor, key: Tensor) -> Tensor:
    return key <= query


def test_masks_are_known_by_what_they_show() -> None:
    assert unlike(Mask(None, causal)) == ""
    assert unlike(Mask(5, lambda _, __, q, k: (k <= q) & (k > q - 5))) == ""
    assert unlike(Mask(5, lambda _, __, q, k: (k <= q) & (k // 5 == q // 5))) == "a mask of its own"
    assert unlike(Mask(None, lambda _, __, q, k: k >= 0 * q)) == "attention to later tokens"
    assert unlike(Mask(5, causal)) == "a mask of its own"


def test_pickled_weights_are_never_read(tmp_path: Path) -> None:
    folder = saved(make("GPT2LMHeadModel"), tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(EngineError, match=r"pytorch_model\.bin is pickled.*only safetensors"):
        Engine.load(folder, settings())


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_weights_that_do_not_fit_are_never_made_up(tmp_path: Path, name: str) -> None:
    model = make(name)
    states = dict(model.state_dict())
    lost, bent = [key for key in states if "layers.1" in key or "h.1." in key][:2]
    del states[lost]
    states[bent] = torch.ones(3)
    model.save_pretrained(tmp_path, state_dict=states)
    with pytest.raises(EngineError) as raised:
        Engine.load(tmp_path, settings(implementation="transformers"))
    assert f"{lost} is missing" in str(raised.value)
    assert bent in str(raised.value)


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_a_file_that_was_cut_off_is_one_sentence(tmp_path: Path, name: str) -> None:
    weights = saved(make(name), tmp_path) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(
        EngineError, match=r"cannot be (read|loaded): .*(incomplete|not fully covered)"
    ):
        Engine.load(tmp_path, settings())
