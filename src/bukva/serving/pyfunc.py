"""A trained model as MLflow serves it (a pyfunc model "from code").

MLflow runs a copy of this file. It lies in the model beside the code, the weights and the requirements that it needs
(tracking/models), so neither the repository nor DVC is there. Each row of the input has a text in one of two columns or
one in each:

prompt    is continued; the answer is in column continuation
text      is scored; the answer is in column bits_per_char

The parameters of a request are keys of section sample of params.yaml, whose values in the experiment are the defaults.
MLflow takes parameters of other names out of a request before this code sees it, with a warning in the server's log.

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
        from bukva.config.schema import Compute
        from bukva.models.device import prepare
        from bukva.serving.writer import Writer

        machine = prepare(Compute(device="auto", precision="auto", threads=0))
        self._writer = Writer.load(Path(context.artifacts[ARTIFACT]), machine)

    def predict(
        self,
        context: PythonModelContext,  # noqa: ARG002 (MLflow passes it)
        model_input: pd.DataFrame,
        params: dict[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Continue or score each row (serving/answers.py).

        Args:
            context: of MLflow.
            model_input: a DataFrame with column prompt or text, or both.
            params: keys of section sample.

        Raises:
            MlflowException: a value is invalid; the server answers with status 400 and the sentence.
        """
        from pydantic import ValidationError

        from bukva.config.messages import sentence
        from bukva.config.schema import Sample
        from bukva.core.errors import BukvaError
        from bukva.serving.answers import answers

        try:
            return answers(self._writer, model_input, Sample.model_validate({"prompts": "auto", **(params or {})}))
        except ValidationError as error:
            raise MlflowException.invalid_parameter_value(sentence(error.errors()[0], Sample)) from None
        except BukvaError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from None


set_model(TextModel())
