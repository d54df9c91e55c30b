"""A trained model and its tokenizer: text in, text and bits out. `bukva.load` returns a Writer."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, ValidationError
from torch import Tensor

from bukva.backends import attach
from bukva.backends.device import Machine, generation_machine, prepare
from bukva.config.messages import sentence
from bukva.config.schema import BITS, CONTINUATION, MOST_CHARS, PROMPT, TEXT, Compute, Sample, Unknown
from bukva.core.errors import BukvaError
from bukva.generation.samples import prompt_generator
from bukva.generation.sampling import first_seen, generate_each
from bukva.models.base import LanguageModel
from bukva.models.folder import CONFIG, load_model
from bukva.models.window_rule import nats_of, stride_of
from bukva.text.ids import Ids, bits
from bukva.text.prompts import composed, opening, without_unknown
from bukva.text.tokenizers.base import MOST_BYTES, Tokenizer

BROKEN = "\N{REPLACEMENT CHARACTER}"
FIRST_PROMPT = 1  # a writer continues a prompt as stage sample continues its first one
FEWEST = {PROMPT: 1, TEXT: 2}  # ids; the first of a text has no score
ADVICE: dict[Unknown, str] = {  # for characters that the model cannot read, by the value of parameter unknown
    "error": "use another text, or parameter unknown drop or replace",
    "drop": "parameter unknown is drop, and nothing of the text is left; use another text",
    "replace": "parameter unknown is replace, but the vocabulary lacks the space; use drop or another text",
}


class Scored(NamedTuple):
    """A piece of text, one character unless the tokenizer joins several, and its bits; None for the first of a text."""

    text: str
    bits: float | None


class Writer:
    """Continues texts and scores them, in the precision in which stage sample writes.

    In bf16 the bits of a character differ a little from those of stage evaluate, which computes in float32: by 0.004 on
    average for the GPT of the embedded corpus, and by 0.12 at most (2,999 characters, docs/dev/log.md).
    """

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, machine: Machine) -> None:
        self.model, self.tokenizer, self.machine = model, tokenizer, generation_machine(model, machine)
        model.to(self.machine.device)
        attach(model, self.machine)
        self.machine.cast_blocks(model)

    @classmethod
    def load(cls, folder: Path, machine: Machine | None = None) -> "Writer":
        """Load the best weights of a model's folder.

        By default a model of more than 25 million parameters computes on a GPU if there is one, any other on all cores.

        Raises:
            BukvaError: its files do not fit each other.
        """
        compute = Compute(device="auto", backend="auto", precision="auto", threads=0)
        return cls(*load_model(folder), machine or prepare(compute, is_deterministic=False))

    def without_ngrams(self) -> "Writer":
        """Return a writer of the network without its n-grams."""
        return Writer(self.model.without_ngrams(), self.tokenizer, self.machine)

    # ---- for programs: what the model cannot read is refused, unless `unknown` says what becomes of it

    def generate(
        self,
        prompt: str,
        n_chars: int = 300,
        *,
        temperature: float = 0.8,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 1337,
        unknown: Unknown = "error",
    ) -> str:
        """The text that follows a prompt, as stage sample continues its first prompt; without the prompt.

        Args:
            prompt: of one character or more.
            n_chars: how much to write: characters (with another tokenizer bytes or tokens).
            temperature: 0 takes the likeliest character, 1 draws from the probabilities of the model.
            top_k: draw from so many of the likeliest characters, 0 for all.
            top_p: draw from the fewest characters whose probabilities have this sum, 1 for all.
            seed: of the random numbers.
            unknown: what becomes of characters outside the vocabulary: error, drop or replace (by a space).

        Raises:
            BukvaError: a value is out of range, or the model cannot read the prompt.
        """
        values = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "unknown": unknown}
        how = settings({"n_chars": n_chars, **values})
        return "".join(piece.text for piece in self.write(self._checked(PROMPT, prompt, unknown), how))

    def bits(self, text: str, unknown: Unknown = "error") -> float:
        """Bits per character of a text of two characters or more, by the window rule.

        The text is one work, of which nothing is known before its first piece: that one is not scored, and does not
        count. For `unknown` see generate.

        Raises:
            BukvaError: the model cannot read the text.
        """
        _, *pieces = self.score(self._checked(TEXT, text, unknown))
        return sum(piece.bits or 0 for piece in pieces) / sum(len(piece.text) for piece in pieces)

    def answer(self, row: Mapping[Any, Any], how: Sample) -> dict[str, Any]:
        """What a served model answers to a row: its prompt is continued, and its text scored; it has one or both.

        Returns:
            continuation and bits_per_char; None for what the row does not ask for.

        Raises:
            BukvaError: the model cannot read the row.
        """
        prompt, text = (cell if isinstance(cell := row.get(name), str) else None for name in (PROMPT, TEXT))
        if prompt is None and text is None:
            raise BukvaError(f"neither {PROMPT} nor {TEXT} is a string; one of them must be.")
        drawn = how.model_dump(exclude={"prompts"})
        return {
            CONTINUATION: None if prompt is None else self.generate(prompt, **drawn),
            BITS: None if text is None else self.bits(text, how.unknown),
        }

    def _checked(self, name: str, text: str, unknown: Unknown) -> str:
        """A readable prompt or text, which has at least FEWEST ids."""
        readable = without_unknown(self.tokenizer, text, unknown)
        try:
            n_ids = len(self.tokenizer.encode(readable))
        except BukvaError as error:
            raise BukvaError(f"{name}: {error}; {ADVICE[unknown]}.") from None
        if n_ids < FEWEST[name]:
            raise BukvaError(f"{name}: {text!r} is too short; use a longer one.")
        return readable

    # ---- for the playground: what the model cannot read is left out, and each piece has its bits

    def readable(self, text: str) -> str:
        """A text without characters outside the vocabulary; if nothing is left, a newline, or else the first id."""
        left_out = dict.fromkeys(map(ord, self.unknown(text)))
        return self.composed(text).translate(left_out) or opening(self.tokenizer)

    def composed(self, text: str) -> str:
        """A text with its letters composed as the vocabulary has them."""
        return composed(self.tokenizer, text)

    def unknown(self, text: str) -> list[str]:
        """The characters of a composed text that are outside the vocabulary, each once."""
        return [char for char in dict.fromkeys(self.composed(text)) if not self.tokenizer.knows(char)]

    def write(self, prompt: str, how: Sample) -> Iterator[Scored]:
        """The text that follows a prompt, as it is drawn; bits are those before temperature, top-k and top-p.

        The random numbers are those of stage sample for its first prompt.
        """
        ids = self._encode(prompt)[None]  # (1, T)
        rng = prompt_generator(how.seed, FIRST_PROMPT)
        drawn: list[int] = []
        nats = 0.0
        kept = how.model_dump(include={"temperature", "top_k", "top_p"})
        steps = generate_each(self.model, ids, how.n_chars, rng=rng, **kept)
        for n_left in reversed(range(how.n_chars)):
            with self.machine.autocast():  # not around the yield: the caller's code between two steps is not affected
                following, logits = next(steps)
            drawn.append(int(following[0]))
            nats += F.cross_entropy(logits, following).item()
            text = self.tokenizer.decode(drawn)
            is_complete = not text.endswith(BROKEN) or len(drawn) == MOST_BYTES
            if is_complete or not n_left:
                yield Scored(text, bits(nats))
                drawn, nats = [], 0.0

    def score(self, text: str) -> list[Scored]:
        """The pieces of a text with their bits, by the window rule."""
        ids = self.encode(text)
        parts = self.tokenizer.parts(ids)
        if len(ids) < 2:
            return [Scored(part, None) for part in parts]
        T = self.model.block_size
        with self.machine.autocast():
            nats = nats_of(self.model, ids, T, stride_of(T))
        return [Scored(parts[0], None), *map(Scored, parts[1:], map(bits, nats.tolist()))]

    @torch.inference_mode()
    def likeliest(self, text: str, n: int) -> list[tuple[str, float]]:
        """The n likeliest pieces after a text, and their probabilities."""
        ids = self._encode(text)
        start = first_seen(len(ids), self.model.block_size)
        before = ids[max(0, start - self.model.config.n_before) : start]
        with self.machine.autocast():
            logits = self.model(ids[None, start:], before=before[None])[0, -1]  # (V,)
        found = logits.float().softmax(-1).topk(min(n, len(self.tokenizer)))
        pieces = self.tokenizer.pieces
        return [(pieces[i], p) for i, p in zip(found.indices.tolist(), found.values.tolist(), strict=True)]

    def encode(self, text: str) -> Ids:
        """A text -> (T,) ids of what of it is readable."""
        return self.tokenizer.encode(self.readable(text))

    def _encode(self, text: str) -> Tensor:
        """The same on the device."""
        return torch.from_numpy(self.encode(text).astype(np.int64)).to(self.machine.device)


def load(model: str | Path) -> Writer:
    """A trained model, which writes and scores text:

        gpt = bukva.load("data/models/gpt")
        gpt.generate("Мой дядя", n_chars=100, seed=3)
        gpt.bits("Мой дядя самых честных правил")

    A model of more than 25 million parameters computes on a GPU if there is one, any other on all cores.

    Args:
        model: its folder, or its name in MLflow: models:/bukva-gpt@best, or with a version models:/bukva-gpt/3.

    Raises:
        BukvaError: it is not there, or is no trained model.
    """
    from bukva.tracking.models import SCHEME, fetch  # not above: the server of a model needs no tracker

    with tempfile.TemporaryDirectory(prefix="bukva-") as temporary:
        folder = fetch(str(model), Path(temporary)) if str(model).startswith(SCHEME) else Path(model)
        if not (folder / CONFIG).is_file():
            raise BukvaError(
                f"{folder}: no trained model, because {CONFIG} is missing; use the folder of one, such as "
                "data/models/gpt after `make repro`, or a registered one, such as models:/bukva-gpt@best."
            )
        return Writer.load(folder)


class RequestSettings(Sample):
    """How to continue a text within some seconds."""

    n_chars: Annotated[int, Field(ge=1, le=MOST_CHARS)]


def settings(values: Mapping[str, Any], section: type[Sample] = Sample) -> Sample:
    """How to continue one text: keys of section sample of params.yaml.

    Raises:
        BukvaError: a value is invalid.
    """
    try:
        return section.model_validate({"prompts": "auto", **values})
    except ValidationError as error:
        raise BukvaError(sentence(error.errors()[0], section)) from None
