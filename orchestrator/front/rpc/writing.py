"""From the events of a stream to gRPC messages. Pure."""

from typing import Any

from orchestrator.front.logprobs import Json
from orchestrator.rpc.draftmesh_pb2 import (
    Choice,
    GenerateResponse,
    GetModelInfoResponse,
    GetServerInfoResponse,
    Histogram,
    Node,
    PromptToken,
    RankedToken,
    Rounds,
    Speculation,
    TokenLogprob,
    Usage,
)

ROUNDS_BY_LENGTH = "acceptance_histogram_by_draft_length"


def message(event: Json) -> GenerateResponse:
    """One event of an answer."""
    made = GenerateResponse(id=event["id"], created=event["created"], model=event["model"])
    for entry in event["choices"]:
        made.choice.CopyFrom(_choice(entry))
    if usage := event.get("usage"):
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        counts = {name: value for name, value in usage.items() if isinstance(value, int)}
        made.usage.CopyFrom(Usage(**counts, cached_tokens=cached))
    if told := (event.get("metrics") or {}).get("speculative_decoding"):
        made.speculation.CopyFrom(_speculation(told))
    made.lossy = event.get("lossy", "")
    return made


def model_info(card: Json, info: Json) -> GetModelInfoResponse:
    """From what `/v1/models` and `/server_info` tell."""
    limits = info["limits"]
    return GetModelInfoResponse(
        name=card["id"],
        created=card["created"],
        context=limits["context"] or 0,
        vocabulary=limits["vocabulary"] or 0,
        draft_length=limits["draft_length"],
    )


def server_info(info: Json, text: str) -> GetServerInfoResponse:
    """From what `/server_info` tells; `text` is all of it."""
    names = ("version", "protocol", "time", "model", "ready", "draining", "speculating")
    return GetServerInfoResponse(
        **{name: info[name] for name in names},
        nodes=[_node(each) for each in info["nodes"]],
        json=text,
    )


def _choice(entry: Json) -> Choice:
    rounds = entry.get("draftmesh")
    return Choice(
        index=entry["index"],
        text=entry["text"],
        finish_reason=entry["finish_reason"] or "",
        logprobs=[_logprob(each) for each in entry.get("logprobs") or ()],
        token_ids=entry.get("token_ids", ()),
        drafted=entry.get("drafted", ()),
        prompt_token_ids=entry.get("prompt_token_ids", ()),
        rounds=None if rounds is None else Rounds(**rounds),
        prompt_logprobs=[_prompt_token(each) for each in entry.get("prompt_logprobs") or ()],
    )


def _prompt_token(entry: Json | None) -> PromptToken:
    return PromptToken(
        tokens=[
            RankedToken(
                id=int(token),
                token=said["decoded_token"],
                logprob=said["logprob"],
                rank=said["rank"],
            )
            for token, said in (entry or {}).items()
        ]
    )


def _logprob(entry: Json) -> TokenLogprob:
    return TokenLogprob(
        token=entry["token"],
        bytes=entry["bytes"],
        logprob=entry["logprob"],
        top_logprobs=[_logprob(each) for each in entry.get("top_logprobs", ())],
    )


def _speculation(told: Json) -> Speculation:
    plain: dict[str, Any] = {
        name: value for name, value in told.items() if name != ROUNDS_BY_LENGTH
    }
    by_length = {
        int(length): Histogram(counts=counts) for length, counts in told[ROUNDS_BY_LENGTH].items()
    }
    return Speculation(**plain, acceptance_histogram_by_draft_length=by_length)


def _node(node: Json) -> Node:
    return Node(
        role=node["role"],
        node_id=node["node_id"],
        draining=node.get("draining", False),
        method=node.get("method") or "",
        weights=node.get("weights") or "",
        requests=node.get("requests", 0),
    )
