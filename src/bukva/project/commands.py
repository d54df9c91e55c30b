"""Run DVC experiments, write DVC commands that users can copy, and read recipes and options `-S KEY=VALUE`.

A recipe is a YAML file in recipes/ that sets some of the parameters. With `others: off`, all other keys of its sections
that can be off are off (`bukva.core.schema.Off`).
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.core.errors import BukvaError, redact_params, redact_text
from bukva.core.files import project_root
from bukva.core.messages import one_or_another
from bukva.core.params import PARAMS, flatten, parse_params, read_params, read_yaml
from bukva.core.processes import die_with_parent
from bukva.core.schema import Params, off_values
from bukva.project.revisions import valid_name, why_failed, why_no_snapshots

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

RECIPES = Path("recipes")
POLL_SECONDS = 0.5
CHANGED_BY_SHELLS = re.compile(r"[\s*?]")  # characters that a shell changes in $(bukva recipe NAME)
# text that needs no quotes in Hydra's syntax
PLAIN = re.compile(r"(?!(?:true|false|null|nan|inf)$)[A-Za-z_./][\w./-]*", re.IGNORECASE)


def run_experiment(
    name: str,
    assignments: Iterable[str],
    *,
    log: Path,
    folder: Path | None = None,
    while_running: Callable[[], None] = lambda: None,
) -> None:
    """Run `dvc exp run` in `folder`, a clone of the project, and append its output to `log`.

    Without `folder`, DVC only queues the experiment. `assignments` are the values of options `-S`. `while_running` is
    called twice a second until DVC ends. BukvaError has the cause of a failure.
    """
    if not folder and (why := why_no_snapshots()):
        raise BukvaError(why)
    queue = [] if folder else ["--queue"]
    command = ["dvc", "exp", "run", *queue, "--name", name, *_options(assignments)]
    # the stages start `python`, and use the records, checkpoints and MLflow of the project
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "BUKVA_ROOT": str(project_root())}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a+", encoding="utf-8", errors="replace") as output:
        start = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=folder or project_root(), env=environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, preexec_fn=die_with_parent,
        )  # fmt: skip
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
                while_running()
        except BaseException:
            process.terminate()
            raise
        if process.returncode:
            output.seek(start)
            why = why_failed(output.read()) or f"`dvc exp run` failed with exit status {process.returncode}"
            raise BukvaError(f"Experiment {name} failed: {why} (log: {log}).")


def _options(assignments: Iterable[str]) -> list[str]:
    return [word for assignment in assignments for word in ("-S", assignment)]


def rerun_command(name: str, params: Mapping[str, Any]) -> str:
    """Return a DVC command that repeats experiment `name`, with all its `params`, as the new experiment NAME-again."""
    options = settings(read_yaml(project_root() / PARAMS), params)
    return " ".join([f"dvc exp run --temp -n {valid_name(name)}-again", *options])


def settings(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the options `-S KEY=VALUE` of `dvc exp run` that change `current` to `wanted`, quoted for a shell.

    Parameters that `current` lacks are left out.
    """
    before, after = flatten(redact_params(current)), flatten(redact_params(wanted))
    changed = {key: value for key, value in after.items() if key in before and before[key] != value}
    return [f"-S {shlex.quote(f'{key}={literal(value)}')}" for key, value in changed.items()]


def literal(value: Any) -> str:
    """Return a parameter value in Hydra's syntax. DVC uses Hydra to parse options `-S`."""
    if isinstance(value, list):
        return f"[{','.join(map(literal, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return value if PLAIN.fullmatch(value) else f"'{escaped}'"
    return json.dumps(value)


def descriptions() -> dict[str, str]:
    """Return the description of each recipe, by recipe name. It is the comment in the first line of the file."""
    files = sorted(RECIPES.glob("*.yaml"))
    return {file.stem: file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for file in files}


def options(name: str) -> list[str]:
    """Return the recipe `name` as arguments of `dvc exp run`, for example ["-S", "model.n_head=4", "-S", ...].

    BukvaError: it does not exist, or has an invalid key or value, or a value that a shell would change.
    """
    path = RECIPES / f"{name}.yaml"
    if not path.exists():
        raise BukvaError(f"Recipe {name} does not exist. Use {one_or_another(list(descriptions()))}.")
    read_params()  # reports a mistake in params.yaml as such, not as a mistake in the recipe
    try:
        params, recipe = read_yaml(), read_yaml(path)
        if recipe.get("others") == "off":
            del recipe["others"]
            recipe = {
                key: off_values(key) | value if isinstance(value, dict) else value for key, value in recipe.items()
            }
        valid = {key: {**params.get(key, {}), **value} for key, value in recipe.items() if isinstance(value, dict)}
        parse_params(params | recipe | valid, str(path))
    except BukvaError as error:
        # not a ParamsError, which would also print how to undo an edit of params.yaml
        raise BukvaError(str(error)) from None
    assignments = [f"{key}={literal(value)}" for key, value in flatten(recipe).items()]
    for assignment in filter(CHANGED_BY_SHELLS.search, assignments):
        raise BukvaError(
            f"{path}, {assignment}: a shell would change a space, * or ? in the value. Write it into {PARAMS} instead."
        )
    return _options(assignments)


def overrides(settings: Sequence[str]) -> "list[Override]":
    """Parse the texts after options `-S`, such as `model.n_head=2,4`, with Hydra. A mistake is a BukvaError.

    So is a URL with a query or a password, because a sweep saves its settings.
    """
    from dvc.utils.hydra import to_hydra_overrides
    from hydra.errors import HydraException

    for key in [setting.partition("=")[0] for setting in settings if redact_text(setting) != setting]:
        raise BukvaError(
            f"-S {key}: a sweep saves its settings, so a URL must not contain a query, a user or a password here. "
            f"Write the URL into {PARAMS} and commit it, or run `dvc exp run` for each URL."
        )
    try:
        return list(to_hydra_overrides(list(settings)))
    except HydraException as error:
        why = f"{_first_line(error)}. Use SECTION.KEY=VALUE, with commas between several values"
    raise BukvaError(f"-S: {why}.")


def values_of(override: "Override") -> list[str]:
    """Return one text `KEY=VALUE` for each value of a parsed option `-S`. An interval is a BukvaError."""
    key = override.key_or_group
    if override.is_interval_sweep():
        raise BukvaError(
            f"-S {key}: only `bukva sweep search` accepts an interval. Give several values, separated by commas."
        )
    if not override.is_sweep_override():
        return [str(override.input_line)]
    return [f"{key}={value}" for value in override.sweep_string_iterator()]


def params_with(settings: Sequence[str]) -> Params:
    """Return the parameters that params.yaml would have with options `-S`. Parameters that are not valid raise."""
    from dvc.exceptions import DvcException
    from dvc.utils.hydra import apply_overrides

    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        changed = Path(shutil.copy(PARAMS, folder))
        try:
            apply_overrides(changed, list(settings))
            return parse_params(read_yaml(changed), PARAMS)
        except DvcException as error:
            reason = f"{_first_line(error.__cause__ or error)}. Use a key of {PARAMS}"
        except BukvaError as error:
            reason = _first_line(error)
    raise BukvaError(f"-S {' -S '.join(settings)}: {reason}.")


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
