"""Models by name: what a name means is fixed to the last bit, fetched once and reused offline."""

from orchestrator.models.fetch import ModelError, Report, find, resolve, silent
from orchestrator.models.table import MODELS, NamedModel

__all__ = ["MODELS", "ModelError", "NamedModel", "Report", "find", "resolve", "silent"]
