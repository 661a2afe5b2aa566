"""Every metric there is: its name, where its number comes from, what it says. `docs/observability.md` shows the table.

Names that begin with `KNOWN` are those that dashboards and autoscalers for vLLM read, with the same meaning.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

KNOWN: Final = "vllm:"
OWN: Final = "draftmesh_"

Kind = Literal["counter", "gauge", "histogram"]


class Metric(NamedTuple):
    """`fact` is its name among the facts of the nodes of `role` (empty: of all), `label` is what divides it there."""

    name: str
    kind: Kind
    role: str
    fact: str
    text: str
    label: str = ""

    @property
    def known(self) -> bool:
        return self.name.startswith(KNOWN)

    @property
    def labels(self) -> list[str]:
        whose = ["model_name", "engine"] if self.known else ["role", "node"]
        return [*whose, self.label] if self.label else whose

    @property
    def shown(self) -> str:
        """The name of its series: that of a counter ends in `_total`."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


# fmt: off
_VLLM: Final[Sequence[tuple[str, Kind, str, str, str]]] = (
    ("spec_decode_num_drafts", "counter", "drafts", "", "Rounds that verified drafts"),
    ("spec_decode_num_draft_tokens", "counter", "draft_tokens", "", "Draft tokens verified"),
    ("spec_decode_num_accepted_tokens", "counter", "accepted_tokens", "",
     "Draft tokens accepted; the target's own token of a round is not counted"),
    ("spec_decode_num_accepted_tokens_per_pos", "counter", "accepted_at", "position",
     "Draft tokens accepted, by position in the window"),
    ("num_requests_running", "gauge", "running", "", "Choices that are decoded now"),
    ("num_requests_waiting", "gauge", "waiting", "", "Choices that wait for a place"),
    ("kv_cache_usage_perc", "gauge", "pages_used", "", "Share of the KV pages in use, 0 to 1"),
    ("num_preemptions", "counter", "preemptions", "", "Times that a choice lost its pages to others"),
    ("prefix_cache_queries", "counter", "prefix_queries", "", "Prompt tokens looked up in the prefix cache"),
    ("prefix_cache_hits", "counter", "prefix_hits", "", "Prompt tokens found there"),
    ("prompt_tokens", "counter", "prompt_tokens", "", "Prompt tokens of choices whose output began"),
    ("generation_tokens", "counter", "emitted_tokens", "", "Output tokens"),
    ("request_success", "counter", "requests_ended", "finished_reason", "Choices that ended, by how"),
    ("time_to_first_token_seconds", "histogram", "first_token_seconds", "",
     "From a choice's arrival at the verifier to its first token"),
    ("inter_token_latency_seconds", "histogram", "between_tokens_seconds", "",
     "From one round of a choice to its next, which may bring several tokens"),
    ("request_time_per_output_token_seconds", "histogram", "per_token_seconds", "",
     "Decoding time of an answer, over its tokens after the first"),
    ("e2e_request_latency_seconds", "histogram", "whole_seconds", "",
     "From a choice's arrival at the verifier to the end of its answer"),
    ("request_queue_time_seconds", "histogram", "queued_seconds", "", "From arrival to a place"),
    ("request_prefill_time_seconds", "histogram", "prefill_seconds", "", "From the place to the first token"),
    ("request_decode_time_seconds", "histogram", "decode_seconds", "", "From the first token to the end"),
    ("request_inference_time_seconds", "histogram", "inference_seconds", "", "From the place to the end"),
    ("request_prompt_tokens", "histogram", "request_prompt_tokens", "", "Prompt tokens of an answer"),
    ("request_generation_tokens", "histogram", "request_output_tokens", "", "Output tokens of an answer"),
    ("iteration_tokens_total", "histogram", "step_tokens", "", "Tokens computed in one forward"),
)
"""Name, kind, fact, label and meaning; all are facts of verifiers."""

_OWN: Final[Sequence[tuple[str, Kind, str, str, str, str]]] = (
    ("steps", "counter", "verifier", "steps", "", "Forwards of the target"),
    ("steps_in_halves", "counter", "verifier", "steps_in_halves", "",
     "Forwards that left out requests whose guesses were being made"),
    ("step_seconds", "histogram", "verifier", "step_seconds", "", "How long a forward took, with judging"),
    ("rounds", "counter", "verifier", "rounds", "", "Verdicts, one for each choice in each forward"),
    ("plain_rounds", "counter", "verifier", "plain_rounds", "reason", "Rounds without drafts, by why"),
    ("cut_tokens", "counter", "verifier", "cut_tokens", "", "Tokens of verdicts behind the end of an answer"),
    ("lossy_tokens", "counter", "verifier", "lossy_tokens", "rule",
     "Output tokens that do not follow the target's law, by the acceptance rule that somebody asked for"),
    ("stale_rows", "counter", "verifier", "stale_rows", "reason", "Rows of guesses that were dropped, by why"),
    ("refused_by_drafters", "counter", "verifier", "refused_by_drafters", "reason",
     "Requests that drafters would not have, by why"),
    ("planned_tokens", "counter", "verifier", "planned_tokens", "", "Draft tokens that the planner wanted verified"),
    ("wasted_tokens", "counter", "verifier", "wasted_tokens", "", "Draft tokens verified and not accepted"),
    ("plans", "counter", "verifier", "choices", "reason", "Steps with windows, by why their lengths are these"),
    ("drafting_changes", "counter", "verifier", "drafting_changes", "",
     "Times that the planner went from drafting to rest, or back; trials are left aside"),
    ("step_emitted_tokens", "gauge", "verifier", "step_emitted", "of", "Output tokens of a step, predicted and actual"),
    ("step_predicted_seconds", "gauge", "verifier", "step_time", "of", "Time of a step, predicted and actual"),
    ("calibration_error", "gauge", "verifier", "calibration_error", "of",
     "How far confidences are from what came true, as they were said (before) and as they are used (after)"),
    ("decoding_rate", "gauge", "verifier", "decoding_rate", "of",
     "Output tokens a second while a verifier decodes, smoothed: as it is (drafts), and as it would be without (plain),"
     " by what the planner knows of costs"),
    ("drafted_tokens_per_pos", "counter", "verifier", "drafted_at", "position",
     "Draft tokens verified, by position in the window"),
    ("bindings", "counter", "verifier", "bindings", "", "Epochs: times that a request was bound to a drafter"),
    ("unbindings", "counter", "verifier", "unbindings", "reason", "Epochs that are over, by why"),
    ("handovers", "counter", "verifier", "handovers", "outcome",
     "Prompts that were offered to prefill nodes, by how that ended"),
    ("handed_tokens", "counter", "verifier", "handed_tokens", "", "Prompt tokens whose KV came from prefill nodes"),
    ("handed_bytes", "counter", "verifier", "handed_bytes", "", "Bytes of KV and hidden states that came from them"),
    ("handover_seconds", "histogram", "verifier", "handover_seconds", "",
     "From the offer of a prompt until a prefill node is done with it"),
    ("prefill_nodes_live", "gauge", "verifier", "prefill_nodes", "", "Prefill nodes with a link"),
    ("offers", "counter", "prefill", "offers", "outcome", "Prompts that verifiers offered, by what became of them"),
    ("computed_tokens", "counter", "prefill", "computed_tokens", "", "Prompt tokens that a prefill node computed"),
    ("sent_bytes", "counter", "prefill", "sent_bytes", "", "Bytes of KV and hidden states that it sent"),
    ("prompts_held", "gauge", "prefill", "prompts", "", "Prompts that a prefill node computes or sends now"),
    ("queued_tokens", "gauge", "prefill", "queued_tokens", "", "Tokens that wait there to be computed"),
    ("hidden_rows", "counter", "verifier", "hidden_rows", "", "Positions whose hidden states drafters were sent"),
    ("hidden_bytes", "counter", "verifier", "hidden_bytes", "", "Bytes of those on the wire"),
    ("bound_requests", "gauge", "verifier", "bound", "drafter", "Choices that are bound to a drafter now"),
    ("drafted_tokens", "counter", "verifier", "drafted_by", "drafter", "Draft tokens verified, by drafter"),
    ("accepted_tokens", "counter", "verifier", "accepted_by", "drafter", "Draft tokens accepted, by drafter"),
    ("drafters_live", "gauge", "verifier", "drafters", "", "Drafters with a link"),
    ("drafter_promptness", "gauge", "verifier", "promptness", "drafter",
     "How often a drafter answers within the planned patience, 0 to 1"),
    ("pages", "gauge", "", "pages", "", "KV pages, of nodes with a model"),
    ("pages_free", "gauge", "", "pages_free", "", "KV pages that may be taken, cached ones among them"),
    ("weights", "gauge", "", "weights", "weights", "Always 1; which weights a node runs, by their SHA-256"),
    ("method", "gauge", "", "method", "method", "Always 1; by which method a drafter guesses"),
    ("requests_refused", "counter", "verifier", "requests_refused", "reason", "Submissions not taken, by why"),
    ("links_rejected", "counter", "verifier", "links_rejected", "", "Times that a drafter would not have a link"),
    ("guesses", "counter", "drafter", "guesses", "", "Tokens guessed, verified or not"),
    ("propose_seconds", "histogram", "drafter", "propose_seconds", "", "How long guessing took, once for all mirrors"),
    ("mirrors", "gauge", "drafter", "mirrors", "", "Requests that are mirrored now"),
    ("mirrors_opened", "counter", "drafter", "mirrors_opened", "", "Requests that were mirrored"),
    ("mirrors_refused", "counter", "drafter", "refused", "reason", "Requests that were not, by why"),
    ("verifiers_live", "gauge", "front", "verifiers", "", "Verifiers with a link"),
    ("prompts_in_flight", "gauge", "front", "in_flight", "", "Prompts that are not answered yet"),
    ("prompts_failed", "counter", "front", "failed", "status", "Prompts without an answer, by HTTP status"),
    ("device", "gauge", "", "device", "device", "Always 1; what a node computes on"),
    ("report_age_seconds", "gauge", "front", "report_age", "peer",
     "How long ago the newest report of another node came; a verifier brings those of its drafters"),
    ("clock_skew_seconds", "gauge", "front", "clock_skew", "peer",
     "How far the time of day of another node is ahead of the front door's"),
    ("clock_skew_doubt_seconds", "gauge", "front", "clock_skew_doubt", "peer",
     "How far from the truth that may be at most: half of the shortest round trips on the way"),
    ("links", "gauge", "", "links", "", "Links that live"),
    ("links_begun", "counter", "", "links_begun", "", "Links that began"),
    ("links_ended", "counter", "", "links_ended", "reason", "Links that ended, by why"),
    ("round_trip_seconds", "gauge", "", "round_trip_seconds", "peer",
     "From this node's loop to a peer's and back, smoothed"),
    ("frames", "counter", "", "frames", "fate", "Frames dropped, unreadable, or held because the transport was full"),
    ("messages_unexpected", "counter", "", "messages_unexpected", "", "Messages that do not belong on their link"),
)
"""Name, kind, role, fact, label and meaning."""
# fmt: on

METRICS: Final[Sequence[Metric]] = (
    *(
        Metric(KNOWN + name, kind, "verifier", fact, text, label)
        for name, kind, fact, label, text in _VLLM
    ),
    *(
        Metric(OWN + name, kind, role, fact, text, label)
        for name, kind, role, fact, label, text in _OWN
    ),
)
