"""A trained model as MLflow serves it (a pyfunc model "from code").

MLflow runs a copy of this file, which lies in the model beside the code, the weights and the requirements that it needs
(tracking/models); neither the repository nor DVC is there. Each row of the input has a prompt, which is continued
(column continuation of the answer), or a text, which is scored (bits_per_char), or both. Parameters of a request are
keys of section sample of params.yaml; their defaults are those of the experiment.

MLflow also runs this file when it saves a model, where another version of bukva may be imported. So bukva is imported
where the model is used, and not above.
"""

from pathlib import Path
from typing import Any

import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

ARTIFACT = "model"  # the folder of the weights


class TextModel(PythonModel):
    """Continues prompts and scores texts."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the weights, for the device and the precision that suit this machine best."""
        from bukva.serving.writer import Writer

        self._writer = Writer.load(Path(context.artifacts[ARTIFACT]))

    def predict(
        self,
        context: PythonModelContext,  # noqa: ARG002 (MLflow passes it)
        model_input: pd.DataFrame,
        params: dict[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Continue or score each row.

        Raises:
            MlflowException: a value is invalid; the server answers with status 400 and the sentence.
        """
        from bukva.config.schema import PROMPT, TEXT
        from bukva.core.errors import BukvaError
        from bukva.serving.writer import RequestSettings, settings

        answers, where = [], ""
        try:
            how = settings(params or {}, RequestSettings)
            if model_input.empty:  # MLflow drops other columns, and rows that have nothing else
                raise BukvaError(f"The request has neither {PROMPT} nor {TEXT}; each row needs one of them.")
            for number, row in enumerate(model_input.to_dict("records"), 1):
                where = f"Row {number}, "
                answers.append(self._writer.answer(row, how))
        except BukvaError as error:
            raise MlflowException.invalid_parameter_value(f"{where}{error}") from None
        return pd.DataFrame(answers, index=model_input.index, dtype=object)  # None, because JSON has no NaN


set_model(TextModel())
