"""The registry of an MLflow store: a version for each scored model, the best under an alias."""

import hashlib
import json
import re
from functools import partial
from typing import TYPE_CHECKING

from bukva.tracking.models.scores import BITS
from bukva.tracking.records import Record
from bukva.tracking.store import with_second_look

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel
    from mlflow.entities.model_registry import ModelVersion

SCORED_ON = "val"  # what `best` means
BEST = "best"
MAKES_THE_TEXT = ("download", "clean", "split")  # sections of params.yaml
DESCRIPTION = (
    "A version for each experiment of bukva that was scored. Alias best: the fewest bits per character on val of the "
    "text that was registered last; best-CORPUS: on that corpus. To use one: docs/sharing.md."
)
VERSIONS = "mlflow.modelVersions"  # by which the page of a model finds its versions
SCORE, TEXT = f"bukva.{SCORED_ON}_{BITS}", "bukva.text"  # tags of a version


def registered_name(model: str) -> str:
    """What the registry calls the versions of a model: bukva-gpt, bukva-bigram."""
    return f"bukva-{model}"


class Registry:
    """The registry of one store."""

    def __init__(self, client: "MlflowClient") -> None:
        self._client = client

    def add(self, model: "LoggedModel", name: str, start: Record, bits: float) -> None:
        """Register a scored model, if it is not there, and move the aliases to the best version.

        Args:
            model: is ready.
            name: gpt, or bigram.
            start: the start record of the stage that scored it.
            bits: per character on SCORED_ON.
        """
        corpus = str(start["params"]["download.corpus"])
        tags = {
            SCORE: repr(bits),
            TEXT: _text_of(start),
            "bukva.experiment": start["experiment"],
            "bukva.commit": start["commit"],
        }
        description = f"{start['experiment']}: {bits:.3f} bits per character on {SCORED_ON} of {corpus}"
        self._register(model, registered_name(name), tags, description)
        self._point_to_best(registered_name(name), tags[TEXT], corpus)

    def _register(self, model: "LoggedModel", name: str, tags: dict[str, str], description: str) -> None:
        version = next((each for each in self._versions(name) if each.source == model.artifact_location), None)
        if version is None:
            self._create_registered_model(name)
            version = self._client.create_model_version(
                name,
                model.artifact_location,
                model.source_run_id,
                tags,
                description=description,
                model_id=model.model_id,
            )
        elif tags.items() - version.tags.items():  # scored again, by other code
            for key, text in tags.items():
                self._client.set_model_version_tag(name, version.version, key, text)
            self._client.update_model_version(name, version.version, description)
        if VERSIONS not in model.tags:  # an MLflow server notes this itself, a database does not
            noted = json.dumps([{"name": name, "version": int(version.version)}])
            self._client.set_logged_model_tags(model.model_id, {VERSIONS: noted})

    def _create_registered_model(self, name: str) -> None:
        """Create the entry of the registry; if it is there, also from another machine a moment ago, take that."""
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name, description=DESCRIPTION)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def _point_to_best(self, name: str, text: str, corpus: str) -> None:
        """Let the aliases name the best version on this text.

        Another machine may register meanwhile, so the versions are read again after each change.
        """
        aliases = (BEST, f"{BEST}-{re.sub(r'[^A-Za-z0-9_-]', '-', corpus)}")
        while True:
            rivals = [each for each in self._versions(name) if each.tags.get(TEXT) == text]
            best = min(rivals, key=lambda each: (float(each.tags[SCORE]), int(each.version)))
            known = self._client.get_registered_model(name).aliases
            if all(str(known.get(alias)) == str(best.version) for alias in aliases):
                return
            for alias in aliases:
                with_second_look(partial(self._client.set_registered_model_alias, name, alias, best.version))

    def _versions(self, name: str) -> list["ModelVersion"]:
        found: list[ModelVersion] = []
        token: str | None = None
        while True:
            page = self._client.search_model_versions(f"name = '{name}'", page_token=token)
            found += page
            if not (token := page.token):
                return found


def _text_of(start: Record) -> str:
    """Equal for experiments whose texts are the same: scores on others cannot be compared."""
    made = {key: value for key, value in start["params"].items() if key.partition(".")[0] in MAKES_THE_TEXT}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]
