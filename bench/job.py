"""One measurement in a process of its own: python -m bench.job NAME ARGUMENTS, the arguments as JSON.

The last line of the output is JSON: the values of the job, or {"error": a sentence} after a mistake in the input.
"""

import json
import sys

from bench import generation, gpu, race, text, updates
from bukva.core.errors import BukvaError
from bukva.core.machine import prepare_torch

MODULES = (generation, gpu, race, text, updates)
JOBS = {name: job for module in MODULES for name, job in module.JOBS.items()}


def main(name: str, arguments: str) -> None:
    """Run the job of that name."""
    try:
        values = JOBS[name](**json.loads(arguments))
    except BukvaError as error:
        values = {"error": str(error)}
    print(json.dumps(values))


if __name__ == "__main__":
    if not sys.argv[1].endswith("-plain"):  # plain code leaves torch and its threads as they are
        prepare_torch()  # as a stage
    main(*sys.argv[1:])
