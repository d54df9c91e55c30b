"""Define a trained model that MLflow can serve. In MLflow's terms, it is a pyfunc "model from code".

MLflow runs a copy of this file without the repository and without DVC, next to the code, the weights and the list of
requirements that it needs (tracking/models). MLflow also runs this file when it saves a model, in a process that may
have imported another version of bukva. So bukva is imported inside the methods and not at the top of the file.
"""

from pathlib import Path
from typing import Any

import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

ARTIFACT = "model"  # name of the MLflow artifact that is the folder of the model


class TextModel(PythonModel):
    """An MLflow model that continues prompts and scores texts."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the weights, and choose the device for this machine."""
        from bukva.serving.writer import Writer

        self._writer = Writer.load(Path(context.artifacts[ARTIFACT]))

    def predict(
        self,
        context: PythonModelContext,  # noqa: ARG002 (MLflow passes it)
        model_input: pd.DataFrame,
        params: dict[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Continue the `prompt` and score the `text` of each row, of which one may be missing.

        MLflow fills in those `params` of the experiment that a request does not set, and answers a MlflowException with
        status 400 and its message.
        """
        from bukva.core.errors import BukvaError
        from bukva.core.schema import BITS, CONTINUATION, PROMPT, TEXT
        from bukva.serving.writer import RequestSettings, settings

        answers, where = [], ""
        try:
            sampling = settings(params or {}, RequestSettings).model_dump(exclude={"prompts"})
            if model_input.empty:  # MLflow drops all other columns, and rows that have only such columns
                raise BukvaError(f"The request has neither {PROMPT} nor {TEXT}; each row needs at least one of them.")
            for number, row in enumerate(model_input.to_dict("records"), 1):
                where = f"Row {number}, "
                prompt, text = (cell if isinstance(cell := row.get(name), str) else None for name in (PROMPT, TEXT))
                if prompt is None and text is None:
                    raise BukvaError(f"neither {PROMPT} nor {TEXT} is a string; set at least one of them.")
                continuation = None if prompt is None else self._writer.generate(prompt, **sampling)
                answers.append({CONTINUATION: continuation, BITS: None if text is None else self._writer.bits(text)})
        except BukvaError as error:
            raise MlflowException.invalid_parameter_value(f"{where}{error}") from None
        # The dtype is object, because float would turn None into NaN, which JSON does not have.
        return pd.DataFrame(answers, index=model_input.index, dtype=object)


set_model(TextModel())
