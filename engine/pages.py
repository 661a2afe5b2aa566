"""Which page holds which positions: page tables, prefix sharing and reuse, in whole numbers only.

A page is in one of three states: *unused*; *referenced* by one or more sequences; or *idle*, which
means cached under a key and referenced by nobody. Idle pages are what an allocation takes when no
page is unused, least recently used first.

A key is the pair of the parent key's identity (or the label, for a first page) and the page's own
tokens, compared by value, so a shared page holds exactly the tokens that were asked for. Identities
are never reused: once a key is forgotten, no key can be found below it again.
"""

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Key = tuple[int | str, tuple[int, ...]]


class OutOfPages(Exception):  # noqa: N818  # it is a state of the pool, and callers plan for it
    """Fewer pages are free than were asked for; nothing was changed."""


@dataclass(frozen=True, slots=True)
class _Cached:
    identity: int
    page: int
    key: Key


class PagedSequence:
    """The page table of one sequence; `computed` positions from 0 have valid KV."""

    __slots__ = ("chain", "computed", "label", "pages")

    def __init__(self, label: str) -> None:
        self.label = label
        self.pages: list[int] = []
        self.computed = 0
        self.chain: list[_Cached] = []  # the keys of its first full pages, where they are cached

    def __repr__(self) -> str:
        return f"PagedSequence(computed={self.computed}, pages={self.pages})"


class PagePool:
    """Hands out the pages 0..pages-1, each of `page_size` positions, and shares full ones."""

    def __init__(self, pages: int, page_size: int) -> None:
        if pages < 1 or page_size < 1:
            raise ValueError(f"a pool needs pages and positions, not {pages} x {page_size}")
        self.pages = pages
        self.page_size = page_size
        # The lowest page first: a lone sequence then gets a contiguous run, which is read in place.
        self._unused = list(range(pages))
        self._idle: OrderedDict[int, None] = OrderedDict()  # the least recently used first
        self._references = [0] * pages
        self._cached: dict[Key, _Cached] = {}
        self._cached_at: dict[int, _Cached] = {}
        self._identities = itertools.count()

    @property
    def free(self) -> int:
        """Pages an allocation may take now."""
        return len(self._unused) + len(self._idle)

    def open(self, tokens: Sequence[int], label: str = "") -> PagedSequence:
        """A sequence that shares the longest cached prefix of full pages, but never the last token.

        `computed` says how many positions that covers. Only pages published under `label` match.
        """
        sequence = PagedSequence(label)
        for cached in self._match(tokens, label):
            self._idle.pop(cached.page, None)
            self._references[cached.page] += 1
            sequence.pages.append(cached.page)
            sequence.chain.append(cached)
        sequence.computed = len(sequence.pages) * self.page_size
        return sequence

    def reserve(self, sequence: PagedSequence, length: int) -> None:
        """Make the page table cover `length` positions, or raise OutOfPages."""
        missing = -(-length // self.page_size) - len(sequence.pages)
        if missing <= 0:
            return
        if missing > self.free:
            raise OutOfPages(f"{missing} pages are needed for {length} positions, {self.free} free")
        for _ in range(missing):
            page = heapq.heappop(self._unused) if self._unused else self._evict()
            self._references[page] = 1
            sequence.pages.append(page)

    def truncate(self, sequence: PagedSequence, kept: int) -> None:
        """Forget the KV from position `kept` on; pages wholly behind go back.

        A page that other sequences share is never written, so where `kept` falls inside one, that
        page goes back too and `computed` falls to its start.
        """
        full, rest = divmod(kept, self.page_size)
        if kept >= sequence.computed:
            self._give_back(sequence, full + bool(rest))
            return
        if rest and self._references[sequence.pages[full]] > 1:
            kept, rest = full * self.page_size, 0
        if rest:
            self._forget(sequence.pages[full])
        self._give_back(sequence, full + bool(rest))
        del sequence.chain[full:]
        sequence.computed = kept

    def publish(self, sequence: PagedSequence, tokens: Sequence[int]) -> None:
        """Make the full pages below `computed` that hold these final tokens shareable.

        `tokens` are the sequence's from position 0; the label is the one it was opened with.
        """
        size = self.page_size
        for index in range(len(sequence.chain), min(sequence.computed, len(tokens)) // size):
            parent = sequence.chain[-1].identity if sequence.chain else sequence.label
            key = (parent, tuple(tokens[index * size : (index + 1) * size]))
            if key not in self._cached:
                cached = _Cached(next(self._identities), sequence.pages[index], key)
                self._cached[key] = self._cached_at[cached.page] = cached
            sequence.chain.append(self._cached[key])

    def release(self, sequence: PagedSequence) -> None:
        """Give every page back; the sequence is empty afterwards, and may be released again."""
        self._give_back(sequence, 0)
        # A sequence that kept its own copy of a cached page does not reference the cached one, and
        # keys below it must not outlive it: so the whole chain counts as used now, children first.
        for cached in reversed(sequence.chain):
            if cached.page in self._idle and self._cached_at[cached.page] is cached:
                self._touch(cached.page)
        sequence.chain.clear()
        sequence.computed = 0

    def clear_cache(self) -> None:
        """Forget every shareable page that nobody references."""
        while self._idle:
            heapq.heappush(self._unused, self._evict())

    def _match(self, tokens: Sequence[int], label: str) -> Iterator[_Cached]:
        parent: int | str = label
        for start in range(0, len(tokens) - self.page_size, self.page_size):
            cached = self._cached.get((parent, tuple(tokens[start : start + self.page_size])))
            if cached is None:
                return
            yield cached
            parent = cached.identity

    def _give_back(self, sequence: PagedSequence, kept_pages: int) -> None:
        # From the end, so that of one sequence's idle pages the deepest is the first to go.
        while len(sequence.pages) > kept_pages:
            page = sequence.pages.pop()
            self._references[page] -= 1
            if self._references[page]:
                continue
            if page in self._cached_at:
                self._touch(page)
            else:
                heapq.heappush(self._unused, page)

    def _touch(self, page: int) -> None:
        self._idle[page] = None
        self._idle.move_to_end(page)

    def _evict(self) -> int:
        page, _ = self._idle.popitem(last=False)
        self._forget(page)
        return page

    def _forget(self, page: int) -> None:
        cached = self._cached_at.pop(page, None)
        if cached is not None:
            del self._cached[cached.key]
