"""The help of the stages' arguments, which are the paths of dvc.yaml by their names.

No stage depends on this module: editing a help text reruns nothing.
"""

from bukva.project.stages import trained_models

HELP = {
    "raw": "Folder of works as they were found: text.txt, and documents.parquet, their table.",
    "clean": "Folder of cleaned works, laid out like raw.",
    "cleaning": "JSON: the rules, what each of them removed, the scripts of the text.",
    "corpus": "Markdown: works, characters and symbols of the cleaned corpus, and what was removed.",
    "corpus_figure": "PNG: characters by author, category and decade, and the counts of symbols.",
    "tokens": "Folder of vocab.json, and of ids.npy with all works in their order.",
    "split": "Folder of train.npy, val.npy and test.npy.",
    "split_report": "JSON: characters per split, category, decade and author.",
    "split_figure": "PNG: how alike the splits are, and what of val and test stands in train.",
    "metrics": "JSON: bits per character of the GPT, the bigram and the best n-gram on val and test.",
    "score_table": "JSON: all scores on all splits, and the window rule.",
    "scores": "Folder: the nats of every held-out character under each model and baseline.",
    "comparison": "PNG: models and baselines on one axis.",
    "losses": "PNG: the losses of the models by step.",
    "samples": "Markdown: what the models write after each prompt.",
    "answers": "JSON: the same, and at other temperatures, for the report page.",
}


def help_of(path: str) -> str:
    """The help of a path of dvc.yaml.

    Raises:
        KeyError: it has none.
    """
    for name, model in trained_models().items():
        if path == name:
            return f"Folder of the {model.label}: config, vocabulary, best and initial weights."
        if path == f"{name}_curve":
            return f"CSV: the losses of the {model.label} by step."
    return HELP[path]
