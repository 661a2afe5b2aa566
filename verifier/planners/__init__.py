"""The table of planners: a new one is a file here and a line below."""

from collections.abc import Callable, Mapping
from typing import Final

from verifier.config import PlannerConfig
from verifier.planner import Planner
from verifier.planners.budget import Budget
from verifier.planners.failfast import FailFast
from verifier.planners.fixed import Fixed
from verifier.planners.history import History
from verifier.planners.libraspec import LibraSpec
from verifier.planners.schedule import Schedule

PLANNERS: Final[Mapping[str, Callable[[PlannerConfig], Planner]]] = {
    "budget": Budget,
    "failfast": FailFast,
    "fixed": Fixed,
    "history": History,
    "libraspec": LibraSpec,
    "schedule": Schedule,
}
