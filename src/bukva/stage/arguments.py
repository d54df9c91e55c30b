"""The help of the stages' arguments, which are the paths of dvc.yaml by their names.

No stage depends on this module: editing a help text reruns nothing.
"""

HELP = {
    "raw": "Folder of works as they were found: category/author/work.txt, documents.csv.",
    "clean": "Folder of cleaned works, laid out like raw.",
    "cleaning": "JSON: characters and lines that each rule removed.",
    "tokens": "Folder of vocab.json, and of ids.npy with all works in their order.",
    "vocab": "vocab.json: the vocabulary.",
    "split": "Folder of train.npy, val.npy and test.npy.",
    "split_report": "JSON: characters per split, category and author.",
    "bigram": "Folder of the bigram: config, vocabulary, best, initial and counted tables.",
    "bigram_curve": "CSV: the losses of the bigram by step.",
    "gpt": "Folder of the GPT: config, vocabulary, best and initial weights.",
    "gpt_curve": "CSV: the losses of the GPT by step.",
    "metrics": "JSON: scores, baselines, the window rule.",
    "losses": "PNG: the losses of the models by step.",
    "attention": "Folder of figures of attention in the GPT, and their numbers.",
    "samples": "Markdown: what the models write after each prompt.",
}
