"""The page of samples: each model, untrained and trained, continues the same prompts, as in the lecture notes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jinja2 import Environment

from bukva.config.schema import Sample
from bukva.generation.sampling import generate
from bukva.models.base import LanguageModel
from bukva.models.folder import load_model
from bukva.tokenizers.base import Tokenizer
from bukva.tokenizers.prompts import readable_prompt
from bukva.training.device import Machine

STATES: dict[str, Literal["initial", "best"]] = {"untrained": "initial", "trained": "best"}

PAGE = """\
# Samples

The models continue the same prompts with the same seed: temperature {{ temperature }}, \
{{ "all characters" if not top_k else "the likeliest " ~ top_k }}\
{{ "" if top_p == 1 else ", of these the fewest that hold " ~ top_p ~ " of the probability" }}, seed {{ seed }}. \
What a model wrote follows the bar │.
{% for prompt, answers in prompts %}
## {{ prompt | shown }}
{% for answer in answers %}
**{{ answer.model }}, {{ answer.state }}**

{{ answer.text | block }}
{% endfor -%}
{% endfor -%}
"""


@dataclass(frozen=True)
class Answer:
    """What one model wrote after one prompt; `text` is prompt, bar, continuation."""

    model: str
    state: str
    text: str


Answers = list[tuple[str, list[Answer]]]  # prompt -> what each model wrote


def answer(folders: dict[str, Path], params: Sample, machine: Machine) -> Answers:
    """Let each model, untrained and trained, continue each prompt; every answer is drawn from the same seed.

    Raises:
        BukvaError: a prompt holds a character that is not in the vocabulary, and sample.unknown does not allow it.
    """
    answers: Answers = [(prompt, []) for prompt in params.prompts]
    for name, folder in folders.items():
        for state, weights in STATES.items():
            model, tokenizer = load_model(folder, weights, machine.device)
            machine.cast_blocks(model)
            for prompt, given in answers:
                read = readable_prompt(tokenizer, prompt, params.unknown)
                given.append(Answer(name, state, f"{read}│{_continue(model, tokenizer, read, params, machine)}"))
    return answers


def _continue(model: LanguageModel, tokenizer: Tokenizer, prompt: str, params: Sample, machine: Machine) -> str:
    ids = torch.from_numpy(tokenizer.encode(prompt).astype(np.int64))[None].to(machine.device)  # (1, T)
    with machine.autocast():
        written = generate(
            model,
            ids,
            params.n_chars,
            temperature=params.temperature,
            top_k=params.top_k,
            top_p=params.top_p,
            rng=torch.Generator().manual_seed(params.seed),
        )
    return tokenizer.decode(written[0].cpu().numpy())


def page(answers: Answers, params: Sample) -> str:
    """reports/samples.md: for each prompt the answers of every model and state."""
    # the page is Markdown, not HTML: nothing is escaped, and samples stand in code blocks
    environment = Environment(keep_trailing_newline=True, autoescape=False)
    environment.filters.update(shown=_shown, block=_block)
    return environment.from_string(PAGE).render(prompts=answers, **params.model_dump(exclude={"prompts", "unknown"}))


def _shown(prompt: str) -> str:
    """A prompt as a heading: line feeds in sight, backticks around it."""
    return "`" + prompt.replace("\n", "\\n") + "`"


def _block(text: str) -> str:
    """A code block by indentation, which no character of the sample can close."""
    return "\n".join(f"    {line}" for line in text.split("\n"))
