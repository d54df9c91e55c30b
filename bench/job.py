"""One measured side in a process of its own: python -m bench.job NAME ARGUMENTS, the arguments as JSON.

The numbers of the job are JSON on the last line that it prints.
"""

import json
import sys

from bench import models, text
from bukva.base.errors import BukvaError

JOBS = {**models.JOBS, **text.JOBS}


def main(name: str, arguments: str) -> None:
    """Run the job of that name."""
    print(json.dumps(JOBS[name](**json.loads(arguments))))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BukvaError as error:
        sys.exit(str(error))
