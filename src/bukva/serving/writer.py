"""Generate and score text with a trained model and its tokenizer. `bukva.load` returns a Writer."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, ValidationError
from torch import Tensor

from bukva.backends.device import Machine, generation_device, prepare
from bukva.core.errors import BukvaError
from bukva.core.messages import error_message
from bukva.core.schema import MOST_CHARS, PROMPT, TEXT, Compute, Sample
from bukva.evaluation.samples import prompt_generator
from bukva.evaluation.sampling import generate_each
from bukva.models.base import LanguageModel
from bukva.models.folder import CONFIG, load_model
from bukva.scoring.window_rule import nats_of, stride_of
from bukva.text.ids import bits
from bukva.text.prompts import composed, default_prompt
from bukva.text.tokenizers import MOST_BYTES, Tokenizer

BROKEN = "\N{REPLACEMENT CHARACTER}"  # the end of a decoded text whose last character is incomplete
FIRST_PROMPT = 1  # a writer draws the same random numbers as stage sample for its first prompt
FEWEST = {PROMPT: 1, TEXT: 2}  # minimum number of ids; a text needs two, because its first id is not scored


class Scored(NamedTuple):
    """A piece of a text (a character or a token), and its bits. The first piece of a text is not scored."""

    text: str
    bits: float | None


class Writer:
    """Generate and score text. Small models generate on the CPU even if `machine` is a GPU."""

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, machine: Machine) -> None:
        self.model, self.tokenizer, self.machine = model, tokenizer, machine
        self.device = generation_device(model, machine)
        model.to(self.device)

    @classmethod
    def load(cls, folder: Path, machine: Machine | None = None) -> "Writer":
        """Load a model folder, such as data/models/gpt, with its best weights.

        By default, a model with more than 25 million parameters runs on a GPU if there is one, and any other model on
        all CPU cores. BukvaError: the files of the folder are inconsistent.
        """
        compute = Compute(device="auto", backend="auto", precision="auto", threads=0)
        return cls(*load_model(folder), machine or prepare(compute, is_deterministic=False))

    def without_ngrams(self) -> "Writer":
        """Return a writer for the same GPT without its n-gram counts."""
        return Writer(self.model.without_ngrams(), self.tokenizer, self.machine)

    # ---- for programs: characters outside the vocabulary are an error

    def generate(
        self,
        prompt: str,
        n_chars: int = 300,
        *,
        temperature: float = 0.8,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 1337,
    ) -> str:
        """Return the continuation of a prompt, as stage sample generates it for its first prompt.

        n_chars: number of characters to generate (with other tokenizers: bytes or tokens).
        temperature: 0 always chooses the likeliest character; 1 samples from the probabilities of the model.
        top_k: sample from this number of likeliest characters; 0 for all.
        top_p: sample from the smallest set of characters whose probabilities add up to this value; 1 for all.

        BukvaError: a value is out of range, the prompt is empty, or it has characters outside the vocabulary.
        """
        values = {"n_chars": n_chars, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        return "".join(piece.text for piece in self.write(self._checked(PROMPT, prompt), settings(values)))

    def bits(self, text: str) -> float:
        """Return the bits per character of a text of two or more characters, scored in overlapping windows.

        The first one has no context and is left out. BukvaError: the text is too short, or has characters outside the
        vocabulary.
        """
        _, *pieces = self.score(self._checked(TEXT, text))
        return sum(piece.bits or 0 for piece in pieces) / sum(len(piece.text) for piece in pieces)

    def _checked(self, name: str, text: str) -> str:
        """Compose a text, and check that the model can read it."""
        readable = self.composed(text)
        try:
            n_ids = len(self.tokenizer.encode(readable))
        except BukvaError as error:
            raise BukvaError(f"{name}: {error}; use another text.") from None
        if n_ids < FEWEST[name]:
            raise BukvaError(f"{name}: {text!r} is too short; use a longer one.")
        return readable

    # ---- for the playground: characters outside the vocabulary are dropped, and each piece is scored

    def readable(self, text: str) -> str:
        """Return a text without the characters outside the vocabulary, or the default prompt if nothing is left."""
        left_out = dict.fromkeys(map(ord, self.unknown(text)))
        return self.composed(text).translate(left_out) or default_prompt(self.tokenizer)

    def composed(self, text: str) -> str:
        """Return a text in Unicode NFC or unchanged, whichever has fewer characters outside the vocabulary."""
        return composed(self.tokenizer, text)

    def unknown(self, text: str) -> list[str]:
        """Return the different characters of a text (in the form of `composed`) that are outside the vocabulary."""
        return [char for char in dict.fromkeys(self.composed(text)) if not self.tokenizer.can_encode(char)]

    def write(self, prompt: str, sampling: Sample) -> Iterator[Scored]:
        """Continue a prompt with the random numbers of stage sample. Yield each piece as soon as it is generated.

        The bits of a piece come from the model's own probabilities, without temperature, top-k and top-p.
        """
        ids, rng = self._encode(prompt), prompt_generator(sampling.seed, FIRST_PROMPT)
        options = sampling.model_dump(include={"temperature", "top_k", "top_p"})
        steps = generate_each(self.model, ids, sampling.n_chars, rng=rng, **options)
        drawn, nats = list[int](), 0.0
        for number, (following, logits) in enumerate(steps, start=1):
            drawn.append(int(following[0]))
            nats += F.cross_entropy(logits, following).item()
            text = self.tokenizer.decode(drawn)
            is_complete = not text.endswith(BROKEN) or len(drawn) == MOST_BYTES
            if is_complete or number == sampling.n_chars:
                yield Scored(text, bits(nats))
                drawn, nats = [], 0.0

    def score(self, text: str) -> list[Scored]:
        """Return the bits of each piece of a text. A long text is scored in overlapping windows."""
        ids = self.tokenizer.encode(self.readable(text))
        parts = self.tokenizer.texts_of(ids)
        if len(ids) < 2:
            return [Scored(part, None) for part in parts]
        T = self.model.block_size
        nats = nats_of(self.model, ids, T, stride_of(T))
        return [Scored(parts[0], None), *map(Scored, parts[1:], map(bits, nats.tolist()))]

    def likeliest(self, text: str, n: int) -> list[tuple[str, float]]:
        """Return the `n` pieces that are most likely to follow a text, as (piece, probability), likeliest first."""
        ids, rng = self._encode(text), torch.Generator()
        _, logits = next(generate_each(self.model, ids, 1, temperature=1.0, top_k=0, top_p=1.0, rng=rng))  # (1, V)
        likeliest = logits[0].softmax(-1).topk(min(n, len(self.tokenizer)))
        pieces = self.tokenizer.pieces
        return [(pieces[i], p) for i, p in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)]

    def _encode(self, text: str) -> Tensor:
        ids = self.tokenizer.encode(self.readable(text))
        return torch.from_numpy(ids.astype(np.int64))[None].to(self.device)  # (1, T)


def load(model: str | Path) -> Writer:
    """Load a trained model from its folder, or from MLflow's registry, such as models:/bukva-gpt@best. For example:

        gpt = bukva.load("data/models/gpt")
        gpt.generate("Мой дядя", n_chars=100, seed=3)
        gpt.bits("Мой дядя самых честных правил")

    BukvaError: the model does not exist, or the folder does not contain a trained model.
    """
    from bukva.tracking.models import SCHEME, fetch  # imported here, because a served model does not need it

    with tempfile.TemporaryDirectory(prefix="bukva-") as temporary:
        folder = fetch(str(model), Path(temporary)) if str(model).startswith(SCHEME) else Path(model)
        if not (folder / CONFIG).is_file():
            raise BukvaError(
                f"{folder} does not contain a trained model ({CONFIG} is missing). Give the folder of a model, such as "
                "data/models/gpt after `make repro`, or a registered model, such as models:/bukva-gpt@best."
            )
        return Writer.load(folder)


class RequestSettings(Sample):
    """Sampling settings of a request, with a limit on `n_chars` so that an answer takes seconds."""

    n_chars: Annotated[int, Field(ge=1, le=MOST_CHARS)]


def settings(values: Mapping[str, Any], section: type[Sample] = Sample) -> Sample:
    """Validate sampling settings by key of section `sample`, without `prompts`. BukvaError names an invalid value."""
    try:
        return section.model_validate({"prompts": "auto", **values})
    except ValidationError as error:
        raise BukvaError(error_message(error.errors()[0], section)) from None
