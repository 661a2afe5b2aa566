"""What a planted fault is: small edits of methods, made and taken back."""

import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True, slots=True)
class Edit:
    """In the source of `owner.name`, `old` (which is there exactly once) becomes `new`."""

    owner: type | ModuleType
    name: str
    old: str
    new: str

    @property
    def original(self) -> Any:  # noqa: ANN401
        return vars(self.owner)[self.name]

    def edited(self) -> Any:  # noqa: ANN401
        """The function, or the property, compiled again with the edit; a LookupError if it does not fit any more."""
        original = self.original
        function: Any = original.fget if isinstance(original, property) else original
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.old!r} is {source.count(self.old)} times in {self.name}")
        names = dict(vars(sys.modules[function.__module__]))
        exec(source.replace(self.old, self.new), names)  # noqa: S102  # our own source, one piece changed
        return names[self.name]


@dataclass(frozen=True, slots=True)
class Fault:
    """Edits that belong together. `rare`: takes hundreds of histories; `unseen`: why no history shows it.

    One that is both has a story all the same.
    """

    edits: tuple[Edit, ...]
    rare: bool = False
    unseen: str = ""


def fault(
    owner: type | ModuleType, name: str, old: str, new: str, *, rare: bool = False, unseen: str = ""
) -> Fault:
    """A fault of one edit."""
    return Fault((Edit(owner, name, old, new),), rare, unseen)


@contextmanager
def applied(planted: Fault) -> Iterator[None]:
    """The code has this fault inside the context."""
    originals = [(edit, edit.original) for edit in planted.edits]
    try:
        for edit in planted.edits:
            setattr(edit.owner, edit.name, edit.edited())
        yield
    finally:
        for edit, original in originals:
            setattr(edit.owner, edit.name, original)
