"""The names that spans and their attributes bear. Those of OpenTelemetry's GenAI conventions are still in development
there (semantic-conventions-genai), so they are written out here, once.
"""

from typing import Final

SCHEMA: Final = "https://opentelemetry.io/schemas/1.41.0"

# --- spans ------------------------------------------------------------------------------------------------------

CHOICE: Final = "verifier choice"
"""One choice of a request on its verifier; below it `QUEUE`, `PREFILL` and `DECODE`."""
QUEUE: Final = "queue"
PREFILL: Final = "prefill"
DECODE: Final = "decode"
HANDOVER: Final = "kv handover"
"""From the offer of a prompt to a prefill node until that fills its pages no more."""
VERIFY: Final = "verify"
"""A request's part in one step: its window, and what came of it."""
DETOKENISE: Final = "detokenise"
"""Text is made of the tokens that a round committed, and looked through for what ends it."""
STEP: Final = "verify step"
"""One forward for all requests that take part; linked with each of theirs that is traced."""
GIVEN: Final = "prefill prompt"
"""A prompt on a prefill node, from its offer until it is forgotten; below it a `PREFILL` for every forward with a part
of it.
"""
MIRROR: Final = "drafter mirror"
"""A request on a drafter; below it a `DRAFT` for every committed prefix that it drafted from."""
DRAFT: Final = "draft"

# --- events of `CHOICE` -------------------------------------------------------------------------------------------

PLAIN_ROUND: Final = "plain round"
BOUND: Final = "drafter bound"
LEFT: Final = "drafter left"
"""It draws back, or is left: what was guessed there is lost, and another may go on."""
STALE_DRAFTS: Final = "stale drafts"
REASON: Final = "spec.reason"

# --- general conventions ------------------------------------------------------------------------------------------

HTTP_METHOD: Final = "http.request.method"
HTTP_ROUTE: Final = "http.route"
HTTP_STATUS: Final = "http.response.status_code"
URL_PATH: Final = "url.path"
URL_SCHEME: Final = "url.scheme"
CLIENT_ADDRESS: Final = "client.address"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
RPC_SYSTEM: Final = "rpc.system"
RPC_SERVICE: Final = "rpc.service"
RPC_METHOD: Final = "rpc.method"
RPC_STATUS: Final = "rpc.grpc.status_code"
ERROR_TYPE: Final = "error.type"

# --- GenAI --------------------------------------------------------------------------------------------------------

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"
REQUEST_SEED: Final = "gen_ai.request.seed"
REQUEST_STOP: Final = "gen_ai.request.stop_sequences"
REQUEST_CHOICES: Final = "gen_ai.request.choice.count"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH: Final = "gen_ai.response.finish_reasons"
RESPONSE_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"

# --- speculation: our own -------------------------------------------------------------------------------------------

CHOICE_INDEX: Final = "spec.choice"
ROUND: Final = "spec.round"
ROUNDS: Final = "spec.rounds"
DRAFTED: Final = "spec.drafted"
ACCEPTED: Final = "spec.accepted"
EMITTED: Final = "spec.emitted"
PLAIN_REASON: Final = "spec.plain.reason"
"""Why a round had no drafts."""
PLAIN_ROUNDS: Final = "spec.plain.rounds"
EPOCH: Final = "spec.epoch"
BASE: Final = "spec.base"
"""Output tokens that were known to be committed."""
GUESSES: Final = "spec.guesses"
DRAFTER: Final = "spec.drafter"
VERIFIER: Final = "spec.verifier"
PREFILL_NODE: Final = "spec.prefill_node"
HANDED_TOKENS: Final = "spec.handover.tokens"
"""Positions whose KV came from a prefill node."""
CHANNEL: Final = "spec.handover.channel"
METHOD: Final = "spec.method"
PREEMPTIONS: Final = "spec.preemptions"
STEP_ROWS: Final = "spec.step.rows"
STEP_TOKENS: Final = "spec.step.tokens"
END: Final = "spec.end"
"""How a choice or a mirror ended."""
