"""Run one measurement in a separate process: `python -m bench.job NAME ARGUMENTS`, with the arguments as JSON.

The last line of output is JSON: the values of the job, or {"error": message} for a mistake in the input.
"""

import json
import sys

from bench import generation, race, text, updates
from bukva.core.errors import BukvaError
from bukva.core.machine import prepare_torch

MODULES = (generation, race, text, updates)
JOBS = {name: job for module in MODULES for name, job in module.JOBS.items()}


def main(name: str, arguments: str) -> None:
    """Run a job and print its values as JSON."""
    try:
        values = JOBS[name](**json.loads(arguments))
    except BukvaError as error:
        values = {"error": str(error)}
    print(json.dumps(values))


if __name__ == "__main__":
    if not sys.argv[1].endswith("-plain"):  # plain code uses torch's defaults
        prepare_torch()  # as every stage does
    main(*sys.argv[1:])
