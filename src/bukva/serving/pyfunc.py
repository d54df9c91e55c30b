"""A trained model as MLflow serves it (a pyfunc model "from code").

MLflow runs a copy of this file. It lies in the model beside the code, the weights and the requirements that it needs
(tracking/models.py), so neither the repository nor DVC is there. Each row of the input has a text in one of two columns
or one in each:

prompt    is continued; the answer is in column continuation
text      is scored; the answer is in column bits_per_char

The parameters of a request are keys of section sample of params.yaml, whose values in the experiment are the defaults.
"""

import os
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

if TYPE_CHECKING:
    from bukva.config.schema import Sample

PROMPT, TEXT = "prompt", "text"  # of the input
CONTINUATION, BITS = "continuation", "bits_per_char"  # of the output
ARTIFACT = "model"  # the folder of the weights
FEWEST = {PROMPT: 1, TEXT: 2}  # ids; the first of a text has no score
MOST_CHARS = 10_000  # that a request may ask for in a row: it has some seconds, not a day

# In its repository bukva keeps machine code beside its other files. Here the current folder may be anybody's.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path.home() / ".cache" / "bukva" / "numba"))


class TextModel(PythonModel):
    """Continues prompts and scores texts."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the weights, for the device and the precision that suit this machine best."""
        from bukva.config.schema import Compute
        from bukva.serving.writer import Writer
        from bukva.training.device import prepare

        machine = prepare(Compute(device="auto", precision="auto", threads=0))
        self._writer = Writer.load(Path(context.artifacts[ARTIFACT]), machine)

    def predict(
        self,
        context: PythonModelContext,  # noqa: ARG002 (MLflow passes it)
        model_input: pd.DataFrame,
        params: dict[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Continue or score each row.

        Args:
            context: of MLflow.
            model_input: a DataFrame with column prompt or text, or both.
            params: keys of section sample.

        Returns:
            A DataFrame with a row for each: columns continuation, bits_per_char, or both, as those of the input.

        Raises:
            MlflowException: a value is invalid; the server answers with status 400 and the sentence.
        """
        from pydantic import ValidationError

        from bukva.base.errors import BukvaError
        from bukva.config.messages import sentence
        from bukva.config.schema import Sample

        try:
            how = Sample.model_validate({"prompts": "auto", **(params or {})})
            answers = pd.DataFrame(list(self._answers(model_input, how)), index=model_input.index, dtype=object)
            return answers.where(answers.notna(), None)  # JSON has no NaN
        except ValidationError as error:
            raise MlflowException.invalid_parameter_value(sentence(error.errors()[0], Sample)) from None
        except BukvaError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from None

    def _answers(self, rows: pd.DataFrame, how: "Sample") -> Iterator[dict[str, Any]]:
        from bukva.base.errors import BukvaError

        if not {PROMPT, TEXT} & set(rows.columns):
            raise BukvaError(f"The input has neither column {PROMPT}, which is continued, nor {TEXT}, which is scored.")
        if how.n_chars > MOST_CHARS:
            raise BukvaError(f"n_chars: {how.n_chars} is too many for a row of a request; use {MOST_CHARS} or fewer.")
        given = [
            {name: self._readable(number, name, text, how) for name, text in _texts_of(row).items()}
            for number, row in enumerate(rows.to_dict("records"), start=1)
        ]  # all are checked before the first answer
        for number, row in enumerate(given, start=1):
            if not row:
                raise BukvaError(f"Row {number}: neither {PROMPT} nor {TEXT} is a string; one of them must be.")
            continued = {CONTINUATION: self._continue(row[PROMPT], how)} if PROMPT in row else {}
            scored = {BITS: self._score(row[TEXT])} if TEXT in row else {}
            yield continued | scored

    def _readable(self, number: int, name: str, text: str, how: "Sample") -> str:
        """The text without characters outside the vocabulary."""
        from bukva.base.errors import BukvaError
        from bukva.encoding.prompts import without_unknown

        tokenizer = self._writer.tokenizer
        readable = without_unknown(tokenizer, text, how.unknown)
        try:
            n_ids = len(tokenizer.encode(readable))
        except BukvaError as error:
            advice = "; use another text, or parameter unknown drop or replace" if how.unknown == "error" else ""
            raise BukvaError(f"Row {number}, {name}: {error}{advice}.") from None
        if n_ids < FEWEST[name]:
            raise BukvaError(f"Row {number}, {name}: {text!r} is too short; use a longer one.")
        return readable

    def _continue(self, prompt: str, how: "Sample") -> str:
        return "".join(piece.text for piece in self._writer.write(prompt, how))

    def _score(self, text: str) -> float:
        _, *pieces = self._writer.score(text)  # the first has no score: nothing comes before it
        return sum(piece.bits or 0 for piece in pieces) / sum(len(piece.text) for piece in pieces)


def _texts_of(row: Mapping[Hashable, Any]) -> dict[str, str]:
    """The cells that have a text; where rows have different columns, pandas fills the others with None or NaN."""
    return {name: row[name] for name in (PROMPT, TEXT) if isinstance(row.get(name), str)}


set_model(TextModel())
