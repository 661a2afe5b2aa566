"""Write the schema of the chart's values anew: `python -m tests.deploy.value_schema`."""

import json

from orchestrator.kubernetes.values import schema
from tests.deploy.chart import CHART

PLACE = CHART / "values.schema.json"


def made() -> str:
    return json.dumps(schema(), indent=1) + "\n"


if __name__ == "__main__":
    PLACE.write_text(made())
