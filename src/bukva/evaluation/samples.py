"""Generate samples: every model continues the same prompts before and after training, as in the lecture notes."""

import itertools
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jinja2 import Environment

from bukva.backends.device import Machine, generation_device
from bukva.core.schema import Sample
from bukva.evaluation.sampling import generate
from bukva.models.base import LanguageModel
from bukva.models.folder import load_model
from bukva.text.prompts import readable_prompt
from bukva.text.tokenizers import Tokenizer

# weights to load for each state
STATES: dict[str, Literal["initial", "best"]] = {"untrained": "initial", "trained": "best"}
NETWORK = ", without its n-grams"  # suffix of the state of a GPT whose n-grams are switched off
OTHER_TEMPERATURES = (0.5, 1.0)  # other temperatures for trained models; 1 does not change the probabilities

PAGE = """\
# Samples

Each prompt has its own random numbers, derived from seed {{ seed }} and the number of the prompt; all models \
continue it with the same ones. {{ unit | capitalize }}s are drawn at temperature {{ temperature }} from \
{{ "all " ~ unit ~ "s" if not top_k else "the " ~ top_k ~ " likeliest" }}\
{{ "" if top_p == 1 else ", of these the fewest that hold " ~ top_p ~ " of the probability" }}. \
What a model wrote follows the bar │. {{ why }}
{% for prompt, answers in prompts %}
## `{{ prompt | replace("\\n", "\\\\n") }}`
{% for answer in answers %}
**{{ answer.model }}, {{ answer.state }}**

    {{ (answer.read ~ "│" ~ answer.written) | replace("\\n", "\\n    ") }}
{% endfor -%}
{% endfor -%}
"""


def answer(
    folders: dict[str, Path], prompts: list[str], params: Sample, machine: Machine, ngrams: Path | None = None
) -> list[dict[str, Any]]:
    """Continue each prompt with every model, before and after training. All models use the same random numbers.

    Trained models continue each prompt at `sample.temperature` and at OTHER_TEMPERATURES. A GPT with n-grams does
    this twice: with its n-grams and without them. Return one dict per continuation, sorted by `prompt`, the number of
    the prompt from 0. The value of `read` is the prompt with composed letters.
    """
    answers = []
    for name, folder in folders.items():
        for state, weights in STATES.items():
            model, tokenizer = load_model(folder, weights, ngrams=ngrams)
            model.to(generation_device(model, machine))
            writers = {f"{state}{NETWORK}": model.without_ngrams()} if model.ngrams else {}
            others = OTHER_TEMPERATURES if weights == "best" else ()
            temperatures = sorted({params.temperature, *others})
            for label, writer in {**writers, state: model}.items():
                about = {"model": name, "state": label}
                answers += [about | each for each in _continued(writer, tokenizer, prompts, temperatures, params)]
    return sorted(answers, key=itemgetter("prompt"))


def _continued(
    writer: LanguageModel, tokenizer: Tokenizer, prompts: list[str], temperatures: list[float], params: Sample
) -> Iterator[dict[str, Any]]:
    """Continue each prompt at each temperature. Prompts of the same length are continued together, in one batch."""
    read = [readable_prompt(tokenizer, prompt) for prompt in prompts]
    encoded = [tokenizer.encode(prompt).astype(np.int64) for prompt in read]  # (T,) each
    by_length = sorted(range(len(prompts)), key=lambda number: len(encoded[number]))
    for _, numbers in itertools.groupby(by_length, lambda number: len(encoded[number])):
        rows = list(itertools.product(numbers, temperatures))
        ids = torch.from_numpy(np.stack([encoded[number] for number, _ in rows]))  # (B, T)
        drawn = generate(
            writer,
            ids.to(next(writer.parameters()).device),
            params.n_chars,
            temperature=torch.tensor([temperature for _, temperature in rows])[:, None],  # (B, 1)
            top_k=params.top_k,
            top_p=params.top_p,
            rng=[prompt_generator(params.seed, number + 1) for number, _ in rows],
        )
        for (number, temperature), written in zip(rows, drawn.cpu().numpy(), strict=True):
            text = tokenizer.decode(written)
            yield {"prompt": number, "temperature": temperature, "read": read[number], "written": text}


def prompt_generator(seed: int, number: int) -> torch.Generator:
    """Return the random number generator for prompt `number`, counted from 1."""
    return torch.Generator().manual_seed(
        int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    )


def page(answers: list[dict[str, Any]], prompts: list[str], params: Sample, unit: str, why: str) -> str:
    """Return reports/samples.md, with `answers` at `sample.temperature`; `why` says how the prompts were chosen."""
    # The page is Markdown, so nothing is escaped. Samples are indented, which makes them code blocks.
    environment = Environment(keep_trailing_newline=True, autoescape=False)
    numbers = params.model_dump(exclude={"prompts"})
    at_temperature = [each for each in answers if each["temperature"] == params.temperature]
    by_prompt = [
        (prompt, [each for each in at_temperature if each["prompt"] == number]) for number, prompt in enumerate(prompts)
    ]
    return environment.from_string(PAGE).render(prompts=by_prompt, unit=unit, why=why, **numbers)


def to_json(answers: list[dict[str, Any]], prompts: list[str], params: Sample) -> dict[str, Any]:
    """Return the content of data/samples.json: the sampling settings, the prompts, and all continuations."""
    settings = params.model_dump(include={"seed", "temperature", "top_k", "top_p"})
    return {**settings, "prompts": prompts, "answers": answers}
