"""What goes on around a call while it runs: where traces are wanted, its span."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

Story = Callable[[str, Mapping[str, str]], AbstractAsyncContextManager[None]]
"""From the address of a call's peer and the headers that it brought."""
