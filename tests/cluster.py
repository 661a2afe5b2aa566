"""A verifier with the real engine and its drafters in one thread, over the in-process mesh: for tests of outputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from drafter.capabilities import TakesHidden, context
from drafter.config import DrafterConfig
from drafter.core import DrafterCore
from drafter.node import DrafterNode
from drafter.proposers import PROPOSERS
from engine.config import Dtype, EngineConfig, Implementation, KvDtype
from engine.features import made_by
from engine.models.config import ModelConfig
from engine.pages import PagePool
from engine.ranks import ALONE, Words
from engine.runner import Engine
from engine.spanning import SpanningEngine
from engine.weights import fingerprint
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Identity, LinkUp, Received
from protocol.local_mesh import LocalNetwork
from protocol.messages import (
    AnyMessage,
    Done,
    Emit,
    Ending,
    Fingerprint,
    Grammar,
    Limits,
    Refuse,
    Sampling,
    Scored,
    Submit,
)
from protocol.process import Peers
from tests import identities
from tests.prefill import prefill_node, supply
from verifier.admission import Admission
from verifier.compiler import DirectCompiler
from verifier.config import FeaturesConfig, PlannerConfig, SchedulerConfig, VerifierConfig
from verifier.core import VerifierCore
from verifier.grammar import Grammars, bridge
from verifier.hidden import Hidden
from verifier.judges import judge
from verifier.node import VerifierNode
from verifier.planners import PLANNERS
from verifier.prefill import PrefillNode
from verifier.reading import capture, projection
from verifier.text import StreamDetokenizer, load_tokenizer
from verifier.worker import EngineWorker

TURNS = 20_000  # a cluster that needs more for a handful of requests is stuck


@dataclass
class Answer:
    """What a front door saw of one choice."""

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    drafted: list[bool] = field(default_factory=list)
    logprobs: list[Scored] = field(default_factory=list)
    prompt_logprobs: list[Scored] = field(default_factory=list)
    done: Done | None = None


class Cluster:
    """Turns are taken one after the other, so a run is as deterministic as its arithmetic.

    `words` are those of rank 0, if the target spans several ranks; the others follow elsewhere.
    `ticks` of simulated time pass a turn: patience and link times do not depend on the machine. `prefill` are the page
    sizes of prefill nodes by their names.
    """

    def __init__(
        self,
        target: Path,
        drafters: Sequence[DrafterConfig] = (),
        *,
        draft_length: int = 8,
        dtype: Dtype = "float32",
        rule: str = "match",
        page_size: int = 16,
        pages: int = 256,
        max_chunk: int = 64,
        max_running: int = 16,
        implementation: Implementation = "auto",
        attention: str = "auto",
        kv_dtype: KvDtype = "auto",
        features: FeaturesConfig = FeaturesConfig(),  # noqa: B008  # frozen
        overlap: bool = True,
        planner: str = "fixed",  # whatever is at hand is verified: budgets would leave it out
        prefill: Mapping[str, int] | None = None,
        words: Words | None = None,
        **settings: Any,
    ) -> None:
        self._numbers = count(1)
        self.now = 0.0
        self.network = LocalNetwork(lambda: self.now)
        self._link = LinkConfig()
        model = ModelConfig.read(target)
        tokenizer = load_tokenizer(target)
        context = min(model.positions, pages * page_size)
        config = VerifierConfig(
            model=target,
            planner=PlannerConfig(name=planner, draft_length=draft_length, overlap=overlap),
            features=features,
            rule=rule,
            **settings,
            scheduler=SchedulerConfig(max_chunk=max_chunk, max_running=max_running),
        )
        self.config = config
        self._engine_config = EngineConfig(
            pages=pages,
            page_size=page_size,
            max_context=context,
            dtype=dtype,
            implementation=implementation,
            attention=attention,
            kv_dtype=kv_dtype,
        )
        self.engine = Engine.load(target, self._engine_config, words or ALONE)
        runs = SpanningEngine(self.engine, words) if words else self.engine
        rows = capture(self.engine, features, projection(features))
        identity = Identity(
            "verifier",
            "verifier-0",
            Fingerprint(vocabulary=model.vocab),
            Limits(context=context, max_ahead=draft_length),
            features=(rows.text, made_by(fingerprint(target))) if rows else (),
        )
        grammars = Grammars(bridge(target, model.vocab, model.eos_ids), lambda _grammar: "")
        self.pool = PagePool(pages, page_size)
        self.core = identities.watched(
            VerifierCore(
                config,
                Admission(context, model.vocab, frozenset(model.eos_ids), rule),
                self.pool,
                PLANNERS[config.planner.name](config.planner),
                lambda: StreamDetokenizer(tokenizer),
                hidden=Hidden(rows, rows.row_bytes, features.recent) if rows else None,
                supply=None if words else supply(self.engine, config),
            )
        )
        self.verifier = VerifierNode(
            self.core,
            self._endpoint("verifier", identity),
            EngineWorker(runs, judge(config)),
            self._clock,
            compiler=DirectCompiler(grammars.compile),
        )
        self.front = self._endpoint("front", Identity("front", "front-0"))
        self.front.dial("verifier", self.now)
        self.configs = {config.node_id: config for config in drafters}
        self.drafters: dict[str, DrafterNode] = {}
        for node_id in self.configs:
            self.start(node_id)
        self.prefill: dict[str, PrefillNode] = {}
        self._prefill_pages = dict(prefill or {})
        for node_id in self._prefill_pages:
            self.start_prefill(node_id)
        self.verifier.command(Peers((*self.configs, *self._prefill_pages)))
        self._front_link: int | None = None
        self._answers: dict[int, Answer] = {}

    def _clock(self) -> float:
        return self.now

    def _endpoint(self, address: str, identity: Identity) -> Endpoint:
        return Endpoint(
            self.network.mesh(address), self._link, identity, lambda: next(self._numbers)
        )

    def start(self, node_id: str) -> None:
        """A new drafter process at its address."""
        config = self.configs[node_id].model_copy(update={"kv_bytes": 16 << 20})
        proposer = PROPOSERS[config.method](config)
        limits = Limits(context(config, proposer), config.max_requests, config.max_ahead)
        needs = proposer.needs if isinstance(proposer, TakesHidden) else ()
        identity = Identity("drafter", node_id, limits=limits, method=config.method, needs=needs)
        endpoint = self._endpoint(node_id, identity)
        self.drafters[node_id] = DrafterNode(
            DrafterCore(config, proposer), endpoint, proposer, self._clock
        )

    def start_prefill(self, node_id: str, kept: FeaturesConfig | None = None) -> None:
        """A new prefill process at its address, with as much memory as the verifier; it keeps its rows, or these."""
        size, config = self._prefill_pages[node_id], self._engine_config
        pages = config.pages * config.page_size // size
        engine = Engine.load(self.config.model, replace(config, page_size=size, pages=pages))
        features = self.config.features if kept is None else kept
        capture(engine, features, projection(features))
        endpoint = self._endpoint(node_id, Identity("prefill", node_id))
        self.prefill[node_id] = prefill_node(engine, self.config, endpoint, self._clock)

    def kill(self, node_id: str) -> None:
        """The drafter or prefill node is gone without a word."""
        self.network.kill(node_id)
        (self.drafters if node_id in self.drafters else self.prefill).pop(node_id)

    def turn(self) -> Iterator[Emit | Done | Refuse]:
        """Everybody takes a turn; yields what the front door hears."""
        self.now += 0.001
        for event in self.front.drain(self.now):
            match event:
                case LinkUp():
                    self._front_link = event.link
                case Received():
                    for message in event.messages:
                        if isinstance(message, Emit | Done | Refuse):
                            yield message
        self.verifier.turn()
        for drafter in list(self.drafters.values()):
            drafter.turn()
        for node in list(self.prefill.values()):
            node.turn()

    def connect(self) -> None:
        """Turn until every link is up."""
        for _ in range(TURNS):
            drafters, prefill = len(self.core.drafting.roster), len(self.core.handover)
            if self._front_link and (drafters, prefill) == (len(self.drafters), len(self.prefill)):
                return
            list(self.turn())
        raise AssertionError("links did not come up")

    def submit(self, *submits: Submit) -> None:
        self.say(*submits)

    def say(self, *messages: AnyMessage) -> None:
        """What the front door tells the verifier."""
        assert self._front_link is not None
        assert self.front.send(self._front_link, messages, self.now)

    def begin(
        self,
        prompts: Sequence[Sequence[int]],
        ending: Ending,
        samplings: Sequence[Sampling] = (),
        grammars: Sequence[Grammar | None] = (),
        **asked: Any,
    ) -> dict[int, Answer]:
        """Submit all prompts at once, one choice each; `asked` are other fields of `Submit`."""
        self.connect()
        self._answers = {next(self._numbers): Answer() for _ in prompts}
        chosen = samplings or [Sampling()] * len(prompts)
        followed = grammars or [None] * len(prompts)
        self.submit(
            *(
                Submit(request, tuple(prompt), ending, sampling, grammar=grammar, **asked)
                for request, prompt, sampling, grammar in zip(
                    self._answers, prompts, chosen, followed, strict=True
                )
            )
        )
        return self._answers

    def listen(self, answers: dict[int, Answer]) -> None:
        """From now on, these are the answers that are waited for."""
        self._answers = answers

    def turns(self, count: int) -> None:
        """So many turns, hearing what comes."""
        for _ in range(count):
            for message in self.turn():
                self._take(self._answers, message)

    def finish(self, answers: dict[int, Answer]) -> list[Answer]:
        """Turn until the last of these answers is done."""
        for _ in range(TURNS):
            if all(answer.done for answer in answers.values()):
                identities.check(self.core.facts())
                return list(answers.values())
            self.turns(1)
        raise AssertionError("not done")

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        ending: Ending,
        samplings: Sequence[Sampling] = (),
        grammars: Sequence[Grammar | None] = (),
        **asked: Any,
    ) -> list[Answer]:
        """All prompts at once, until the last is done."""
        running = self.begin(prompts, ending, samplings, grammars, **asked)
        return self.finish(running)

    @staticmethod
    def _take(answers: dict[int, Answer], message: Emit | Done | Refuse) -> None:
        match message:
            case Emit():
                answer = answers[message.request]
                answer.tokens += message.tokens
                answer.text += message.text
                answer.drafted += message.drafted
                answer.logprobs += message.logprobs
                answer.prompt_logprobs += message.prompt_logprobs
            case Done():
                answers[message.request].done = message
            case Refuse():
                raise AssertionError(message)

    def settle(self) -> None:
        """Let everything that is under way arrive."""
        for _ in range(50):
            list(self.turn())
