"""Samples: each model, untrained and trained, continues the same prompts, as in the lecture notes."""

import itertools
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jinja2 import Environment

from bukva.backends import attach
from bukva.backends.device import Machine, generation_machine
from bukva.config.schema import Sample
from bukva.generation.sampling import generate
from bukva.models.folder import load_model
from bukva.text.prompts import readable_prompt

STATES: dict[str, Literal["initial", "best"]] = {"untrained": "initial", "trained": "best"}
NETWORK = ", without its n-grams"  # of a GPT that has both
OTHER_TEMPERATURES = (0.5, 1.0)  # at which trained models write, too: careful, and as they predict

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
    """Let each model, untrained and trained, continue each prompt, all with the same random numbers.

    Trained models also write at OTHER_TEMPERATURES. A GPT with n-grams writes with and without them.

    Args:
        folders: of the models, by name.
        prompts: of the texts.
        params: section sample of params.yaml.
        machine: on which the models write.
        ngrams: folder that may hold the counts of train.

    Returns:
        The answers by prompt: its number, model, state, temperature, the prompt as the model read it, without
        characters that it does not know, and what it wrote.

    Raises:
        BukvaError: a prompt holds a character that is not in the vocabulary, and sample.unknown does not allow it.
    """
    answers = []
    for name, folder in folders.items():
        for state, weights in STATES.items():
            model, tokenizer = load_model(folder, weights, ngrams=ngrams)
            used = generation_machine(model, machine)
            model.to(used.device)
            attach(model, used)
            used.cast_blocks(model)
            writers = {f"{state}{NETWORK}": model.without_ngrams()} if model.counts else {}
            others = OTHER_TEMPERATURES if weights == "best" else ()
            for (who, writer), temperature, (number, prompt) in itertools.product(
                {**writers, state: model}.items(), sorted({params.temperature, *others}), enumerate(prompts)
            ):
                read = readable_prompt(tokenizer, prompt, params.unknown)
                ids = torch.from_numpy(tokenizer.encode(read).astype(np.int64))[None].to(used.device)  # (1, T)
                how = {"temperature": temperature, "top_k": params.top_k, "top_p": params.top_p}
                with used.autocast():
                    rng = prompt_generator(params.seed, number + 1)
                    written = generate(writer, ids, params.n_chars, rng=rng, **how)[0]
                about = {"prompt": number, "model": name, "state": who, "temperature": temperature}
                answers.append({**about, "read": read, "written": tokenizer.decode(written.cpu().numpy())})
    return sorted(answers, key=itemgetter("prompt"))


def prompt_generator(seed: int, number: int) -> torch.Generator:
    """The random numbers that continue prompt `number`, counted from 1."""
    return torch.Generator().manual_seed(
        int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    )


def page(answers: list[dict[str, Any]], prompts: list[str], params: Sample, unit: str, why: str) -> str:
    """reports/samples.md: for each prompt the answers of every model and state, at sample.temperature.

    `unit` is what the models write, a character, byte or token, and `why` says why these are the prompts.
    """
    # the page is Markdown, not HTML: nothing is escaped, and samples stand in code blocks by indentation
    environment = Environment(keep_trailing_newline=True, autoescape=False)
    numbers = params.model_dump(exclude={"prompts", "unknown"})
    written = [one for one in answers if one["temperature"] == params.temperature]
    shown = [(prompt, [one for one in written if one["prompt"] == number]) for number, prompt in enumerate(prompts)]
    return environment.from_string(PAGE).render(prompts=shown, unit=unit, why=why, **numbers)


def to_json(answers: list[dict[str, Any]], prompts: list[str], params: Sample) -> dict[str, Any]:
    """data/samples.json: the answers at all temperatures, and the settings that they have in common."""
    settings = params.model_dump(include={"seed", "temperature", "top_k", "top_p"})
    return {**settings, "prompts": prompts, "answers": answers}
