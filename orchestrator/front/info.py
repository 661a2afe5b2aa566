"""`GET /server_info`: who takes part, what is served, within which limits, how it was configured."""

from typing import Any

from orchestrator import __version__
from orchestrator.front.config import FrontConfig
from orchestrator.front.fields import LIKELIEST
from orchestrator.front.messages import Member, Status
from orchestrator.front.queries import MOST_CHOICES
from protocol.messages import PROTOCOL_VERSION


def server_info(config: FrontConfig, status: Status, time: float) -> dict[str, Any]:
    """All of it as plain data, at this time of day. Secrets are not in it."""
    return {
        "version": __version__,
        "protocol": PROTOCOL_VERSION,
        "time": time,
        "model": config.name,
        "ready": status.ready,
        "draining": status.draining,
        "speculating": status.speculating,
        "limits": {
            "context": status.context or None,
            "vocabulary": status.vocabulary or None,
            "draft_length": status.draft_length,
            "requests": config.max_requests,
            "body_bytes": config.max_body,
            "choices": MOST_CHOICES,
            "logprobs": LIKELIEST,
        },
        "nodes": [
            {"role": "front", "node_id": config.node_id},
            *(_node(member) for member in status.members),
        ],
        "api_key": bool(config.keys),
        "front": config.model_dump(mode="json", exclude={"service"}),
        "config": dict(config.service),
    }


def _node(member: Member) -> dict[str, Any]:
    return {
        "role": member.role,
        "node_id": member.node_id,
        "draining": member.draining,
        "requests": member.choices,
        "method": member.method or None,
        "weights": member.fingerprint.weights or None,
        "tokenizer": member.fingerprint.tokenizer or None,
        "vocabulary": member.fingerprint.vocabulary or None,
        "limits": {
            "context": member.limits.context or None,
            "requests": member.limits.requests or None,
            "draft_length": member.limits.max_ahead,
        },
    }
