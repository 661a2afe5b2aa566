"""Named documents that a drafter may copy from, sorted in a background thread and swapped in when ready."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread

import numpy as np

from drafter.proposers.sorted_text import Codes, SortedText, join
from protocol.messages import CorpusEntry

_log = logging.getLogger(__name__)

Document = Sequence[int]


class CorpusError(ValueError):
    """A command about corpora that is not obeyed, with the reason; nothing has changed."""


@dataclass(slots=True, eq=False)
class _Corpus:
    documents: int = 0
    tokens: int = 0
    ready: bool = False
    fresh: list[Document] = field(default_factory=list)
    codes: Codes = field(default_factory=lambda: join(()))
    text: SortedText | None = None


class Corpora:
    """All corpora of a drafter, of at most `capacity` tokens together. Any thread may call it."""

    def __init__(self, capacity: int, sort: Callable[[Codes], SortedText] = SortedText) -> None:
        self._capacity = capacity
        self._sort = sort
        self._corpora: dict[str, _Corpus] = {}
        self._changed = Condition()
        self._worker: Thread | None = None
        self._texts: tuple[SortedText, ...] = ()

    def add(self, name: str, documents: Sequence[Document], *, append: bool = False) -> None:
        """Hold these documents, after those already there or in place of them; what is there serves until then."""
        documents = [document for document in documents if len(document)]
        tokens = sum(map(len, documents))
        with self._changed:
            known = self._corpora.get(name)
            others = self._held() - (known.tokens if known and not append else 0)
            if others + tokens > self._capacity:
                raise CorpusError(
                    f"corpus {name!r}: {tokens} tokens do not fit, {others} of {self._capacity} are taken"
                )
            if known is None or not append:
                known = self._corpora[name] = _Corpus(text=known.text if known else None)
            known.documents += len(documents)
            known.tokens += tokens
            known.fresh += documents
            known.ready = False
            if self._worker is None:
                self._worker = Thread(target=self._work, name="corpora", daemon=True)
                self._worker.start()

    def remove(self, name: str) -> None:
        """Forget a corpus at once."""
        with self._changed:
            if self._corpora.pop(name, None) is None:
                raise CorpusError(f"no corpus {name!r}")
            self._publish()

    def entries(self) -> list[CorpusEntry]:
        """What is held; not `ready`: what was added last is not searched yet."""
        with self._changed:
            return [
                CorpusEntry(name, corpus.documents, corpus.tokens, corpus.ready)
                for name, corpus in self._corpora.items()
            ]

    def ready(self) -> tuple[SortedText, ...]:
        """What can be searched now. Never waits."""
        return self._texts

    def wait(self, timeout: float) -> bool:
        """Until all that was added is ready, or the time is over."""
        with self._changed:
            return self._changed.wait_for(lambda: self._worker is None, timeout)

    def _held(self) -> int:
        return sum(corpus.tokens for corpus in self._corpora.values())

    def _publish(self) -> None:
        texts = (corpus.text for corpus in self._corpora.values())
        self._texts = tuple(text for text in texts if text is not None)
        self._changed.notify_all()

    def _work(self) -> None:
        while (work := self._next()) is not None:
            self._build(*work)

    def _next(self) -> tuple[str, _Corpus] | None:
        with self._changed:
            for name, corpus in self._corpora.items():
                if not corpus.ready:
                    return name, corpus
            self._worker = None
            self._changed.notify_all()
            return None

    def _build(self, name: str, corpus: _Corpus) -> None:
        with self._changed:
            fresh, corpus.fresh = corpus.fresh, []
        try:
            codes = np.concatenate((corpus.codes, join(fresh)))
            text = self._sort(codes)
        except MemoryError:
            _log.warning("corpus %r is dropped: not enough memory to sort it", name)
            with self._changed:
                if self._corpora.get(name) is corpus:
                    del self._corpora[name]
                self._publish()
            return
        with self._changed:
            corpus.codes, corpus.text = codes, text
            corpus.ready = not corpus.fresh
            self._publish()
