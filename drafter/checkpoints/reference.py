"""What the authors of EAGLE publish: EAGLE-1 and -2, and EAGLE-3 in its first form."""

from drafter.checkpoints.chains import eagle, eagle3
from drafter.checkpoints.head import IN, Head, Source
from drafter.checkpoints.layers import states
from drafter.checkpoints.parts import canonical, shape


def third(source: Source) -> bool:
    """EAGLE-3 calls itself a Llama; a small vocabulary or its own names of tensors give it away."""
    if source.architecture != "LlamaForCausalLM":
        return False
    ours = any(name.startswith(("midlayer.", "model.midlayer.")) for name in source.shapes)
    return ours or "d2t" in source.shapes or "draft_vocab_size" in source.config


def read_third(source: Source) -> Head:
    """The inputs of three layers, unless the configuration says otherwise."""
    ids = source.config.get("eagle_aux_hidden_state_layer_ids")
    model = shape(source.config, source, "llama")
    return eagle3(source, model, "eagle3", states=states(source, ids, IN))


def first(source: Source) -> bool:
    """EAGLE-1 and -2 call themselves a Llama too, of one layer, beside an `fc` of two inputs."""
    if source.architecture != "LlamaForCausalLM" or third(source):
        return False
    widths = [shape for name, shape in source.shapes.items() if canonical(name) == "fc.weight"]
    return bool(widths) and widths[0][1] == 2 * widths[0][0]


def read_first(source: Source) -> Head:
    """The target's last state after its norm goes in."""
    return eagle(source, shape(source.config, source, "llama"))
