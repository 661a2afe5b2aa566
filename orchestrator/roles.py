"""Roles of processes, as far as several parts of the orchestrator must agree on them."""

from typing import Final

HELPERS: Final = frozenset({"prefill", "drafter"})
"""Roles whose work verifiers do without, only slower; they report to verifiers."""
