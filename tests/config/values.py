"""Values for every key of params.yaml: valid ones, limits, absurd ones and other types; and combinations of keys.

A value that the schema accepts must succeed in the stages that read it, or a stage must reject it in a sentence.
"""

import math

OTHER_TYPES = [None, "", "8", " ", "²", [], [1], {}, {"a": 1}, b"8", math.nan, math.inf, -math.inf]
INTEGERS = [
    1,
    2,
    3,
    16,
    20,
    0,
    -1,
    -(10**12),
    10**8,
    2**31,
    2**53 + 1,
    2**63,
    10**30,
    1 << 20_000,
    True,
    1.0,
    1e3,
    "1e3",
]
FRACTIONS = [
    *[0.0, 5e-324, 1e-45, 1e-7, 0.3, 0.5, 0.9999999, 0.9999999999999999, 1.0, 1, 0],
    *[1.0000000000000002, -5e-324, -0.5, 2.0, 1e308, 10**400, True, "0.5", "0,5"],
]
RATES = [5e-324, 1e-9, 1e-3, 1, 30.0, 1e6, 1e38, 1e40, 1.7e308, 0.0, -0.0, -1e-3, 10**400, "1e-3", False]
SEEDS = [0, 1, 1337, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -1, 10**30, True, 1.0]
SWITCHES = [True, False, 0, 1, -1, 0.0, "true", "no", "True", 2]
CHOICES = ["adamw", "muon", "Muon", "adam", "", "\u00adadamw", "a" * 10_000, 0, True, "rotary", "none", "notes"]
TEXTS = [
    *["\n", "а", "Было это", "Было\r\nэто", "б" * 16, "б" * 17, "\0", "\u202e", "`|#", "Ё" * 100_000, "e\u0301"],
    *["\U0001f600", "\ud800", "https://me:secret@host/?key=secret", 8, True],
]
LISTS = [
    *[["\n"], ["а", "б"], ["а"] * 20, ["а" * 5000], ["\0"], ["\U0001f600"], ["`|#\r\n"]],
    *[[], [""], [None], [1], ["а", []], "а", ["\ud800"], [["а"]], "auto", "Auto", ["auto"]],
]
ORDERS = [
    *[[3], [8], [3, 8], [8, 3], [3, 4, 5, 6, 7, 8], [3, 3], [2], [9], [], [3.0], ["3"], [True], [[3]], [None]],
    *[[10**30], 3, "3", {"3": 3}, list(range(3, 9)) * 1000],
]
PATHS = [
    *["book.txt", ".", "./book.txt", "nowhere", "dvc.yaml", "book.txt/", "ё/ж.txt", "a" * 200, "a\0b", "empty.txt"],
    *["", "\ud800", 8, ["book.txt"], "latin.txt", "\n", "-"],
]
OPTIONS = [
    *[
        [],
        ["stress_accents"],
        ["latin_passages"],
        ["stress_accents", "latin_passages"],
        ["latin"],
        ["\n"],
        ["a" * 5000],
    ],
    *[["latin_passages"] * 2, [""], [1], [None], [[]], "latin_passages", ["\ud800"], {"latin_passages": True}],
]
ADDRESSES = [
    *[
        "",
        "http://127.0.0.1:1/a.txt",
        "https://127.0.0.1:1",
        "http://127.0.0.1:1/?key=secret",
        "http://.x/",
        "http://*/",
    ],
    *["http://" + "ж" * 300, "http://[::1", "http://[v1.x]/", "http://127.0.0.1:99999/", "http://127.0.0.1:b/"],
    *["http://", "http://a b/", "http://127.0.0.1:1/\n", "http://℀.com/", "ftp://127.0.0.1/a", "file:///etc/passwd"],
    *["http://" + "a" * 10_000, "http://127.0.0.1:1/" + "a" * 2000, "http://127.0.0.1:1/\ud800", "//127.0.0.1/a"],
    *["https://me:secret@127.0.0.1:1/a", "https://me:se?cret/@127.0.0.1:1/a", "me:secret@host/a"],
]
DIGESTS = ["", "a" * 64, "0" * 64, "A" * 64, "a" * 63, "a" * 65, "g" * 64, "a" * 64 + "\n", 0, "а" * 64, " " * 64]
ENCODINGS = ["auto", "utf-8", "cp1251", "UTF-8", "utf8", "rot13", "idna", "", "no-such", "\ud800", 8, True, None]
COLUMNS = ["text", "текст", " ", "a" * 10_000, "\0", "\ud800", "", 8, True]
EXTENSIONS = [
    *[[], [".py"], [".PY"], [".txt"], [".html", ".py"], [".ж"], ["." + "a" * 99], [".*"]],
    *[["py"], [".py", ".py"], [""], ["."], [".a/b"], [".tar.gz"], [".a b"], [". "], [8], [[".py"]], [None]],
    *[".py", ["." + "a" * 100], {".py": 1}, ["\ud800"]],
]
DATASETS = ["", "owner/name", "o/n", "owner", "a/b/c", "/b", "a/", "../b", "a b/c", "ж/ж", "\ud800", "a" * 201, 8]
REVISIONS = ["", "a" * 40, "main", "A" * 40, "v1.0", "../..", "ж", "\ud800", "a" * 201, 8]
PATTERNS = ["*", "data/train-*", "*.parquet", "[", "[!", "**/*", "ж", "\0", "", "a" * 1001, 8]

KINDS = [
    ([*INTEGERS, 256, 257, 263, 1024, 20_000, 20_001], {"tokenize": ["vocab_size"]}),
    ([*INTEGERS, 30, 31, 60, 10_000, 10_001], {"split": ["duplicate_chars"]}),
    (INTEGERS, {
        "model": ["n_layer", "n_head", "n_embd", "block_size"], "compute": ["threads"],
        "train_bigram": ["block_size", "n_steps", "batch_size", "micro_batches", "warmup_steps", "eval_every",
                         "patience"],
        "train_gpt": ["n_steps", "batch_size", "micro_batches", "processes", "warmup_steps", "eval_every", "patience"],
        "evaluate": ["short_context", "context_chars", "attention_windows", "leak_steps"],
        "sample": ["n_chars", "top_k"],
    }),
    (FRACTIONS, {
        "split": ["train", "val", "test"], "model": ["dropout", "ngram_dropout", "network_loss"],
        "train_bigram": ["decay_to", "beta2"],
        "train_gpt": ["decay_to", "beta2"], "sample": ["top_p"],
    }),
    (RATES, {
        "train_bigram": ["learning_rate", "weight_decay", "grad_clip"],
        "train_gpt": ["learning_rate", "weight_decay", "grad_clip"], "sample": ["temperature"],
    }),
    (SEEDS, {"train_bigram": ["seed"], "train_gpt": ["seed"], "sample": ["seed"]}),
    (SWITCHES, {"download": ["strict"], "model": ["qk_norm", "bias", "tie_weights"]}),
    (CHOICES, {
        "download": ["corpus"], "clean": ["rules"], "tokenize": ["kind", "vocabulary", "unknown"],
        "split": ["strategy", "duplicates"],
        "model": ["positions", "norm", "activation", "proj_init", "ngrams"], "compute": ["device", "precision"],
        "train_bigram": ["optimizer", "order"], "train_gpt": ["optimizer", "order"], "sample": ["unknown"],
    }),
    (TEXTS, {"evaluate": ["attention_sentence"]}),
    (LISTS, {"sample": ["prompts"]}),
    (ORDERS, {"evaluate": ["ngram_orders"], "model": ["ngram_orders"]}),
    (PATHS, {"download": ["path"], "clean": ["file"]}),
    (OPTIONS, {"clean": ["optional"]}),
    (ADDRESSES, {"download": ["url"]}),
    (DIGESTS, {"download": ["sha256"]}),
    (DATASETS, {"download": ["dataset"]}),
    (REVISIONS, {"download": ["revision"]}),
    (PATTERNS, {"download": ["files"]}),
    (ENCODINGS, {"download": ["encoding"]}),
    (COLUMNS, {"download": ["text_column"]}),
    (EXTENSIONS, {"download": ["extensions"]}),
]  # fmt: skip
# The names that a choice accepts; a corpus from the network is not tried.
NAMES = {
    "download.corpus": ["sample", "local", "url"],
    "clean.rules": ["auto", "notes", "literary", "none", "file"],
    "tokenize.kind": ["char", "byte", "bpe"],
    "tokenize.vocabulary": ["all", "train"],
    "tokenize.unknown": ["error", "drop", "replace"],
    "split.strategy": ["tail", "contiguous", "by_work", "by_author"],
    "split.duplicates": ["keep", "group", "remove"],
    "model.positions": ["learned", "rotary", "none"],
    "model.norm": ["layernorm", "rmsnorm"],
    "model.activation": ["gelu", "relu", "relu2"],
    "model.proj_init": ["scaled", "zero"],
    "model.ngrams": ["none", "logits", "input"],
    "compute.device": ["auto", "cpu", "cuda"],
    "compute.precision": ["auto", "fp32", "bf16"],
    "train_bigram.order": ["epoch", "random"],
    "train_gpt.order": ["epoch", "random"],
    "sample.unknown": ["error", "drop", "replace"],
}
VALUES = {
    f"{section}.{key}": [*values, *OTHER_TYPES, *NAMES.get(f"{section}.{key}", [])]
    for values, keys in KINDS
    for section, names in keys.items()
    for key in names
}
# Larger values are valid too, but take longer or more memory than a test has; processes are tested in tests/dvc.
LARGEST = {
    "model.n_layer": 3, "model.n_embd": 20, "compute.threads": 20, "train_gpt.processes": 1,
    "train_bigram.n_steps": 20, "train_bigram.batch_size": 32, "train_bigram.micro_batches": 32,
    "train_gpt.n_steps": 20, "train_gpt.batch_size": 32, "train_gpt.micro_batches": 32,
    "evaluate.attention_windows": 2, "evaluate.leak_steps": 2, "evaluate.context_chars": 2,
    "evaluate.short_context": 2, "sample.n_chars": 20,
}  # fmt: skip


# Values that the schema accepts and a stage may reject: a diverging training, an unknown character, a missing file.
MAY_BE_REJECTED = {
    "download.path": lambda value: value not in ("book.txt", "./book.txt", "book.txt/"),
    "clean.optional": lambda value: value != [],
    "tokenize.kind": lambda value: value == "bpe",  # a split of so short a text has fewer ids than a window
    "tokenize.vocabulary": lambda value: value == "train",
    "split.strategy": lambda value: value in ("by_work", "by_author"),  # the text is one work
    "model.dropout": lambda value: value > 0.99999,
    "compute.device": lambda value: value == "cuda",
    "train_bigram.beta2": lambda value: value < 1e-6,
    "train_gpt.beta2": lambda value: value < 1e-6,
    "train_bigram.learning_rate": lambda value: value > 10,
    "train_gpt.learning_rate": lambda value: value >= 1,
    "train_bigram.weight_decay": lambda value: value > 1e5,
    "train_gpt.weight_decay": lambda value: value > 1e5,
    "evaluate.attention_sentence": lambda value: not set(value) <= set("\n Было этаб"),
    "sample.prompts": lambda value: value != "auto" and not set("".join(value)) <= set("\nаб"),
}
# Keys that depend on each other, and combinations that once failed.
COMBINATIONS = [
    {"split.train": 0.95, "split.val": 0.05, "split.test": 0.0},
    {"split.train": 0.95, "split.val": 0.05, "split.test": 0},
    {"split.train": 0.01, "split.val": 0.98, "split.test": 0.01},
    {"split.train": 0.5, "split.val": 0.5, "split.test": 5e-324},
    {"split.train": 5e-324, "split.val": 0.5, "split.test": 0.5},
    {"split.train": 0.9999999999999999, "split.val": 5e-324, "split.test": 0.0},
    {"model.positions": "learned", "model.n_head": 8},
    {"model.n_head": 2, "model.n_embd": 20},
    {"train_gpt.n_steps": 1, "train_gpt.eval_every": 1, "train_gpt.warmup_steps": 1},
    {"train_gpt.optimizer": "adamw", "train_gpt.learning_rate": 1.7e308},
    {"train_gpt.learning_rate": 1.7e308, "train_gpt.weight_decay": 1.7e308},
    {"compute.precision": "bf16", "model.dropout": 0.5},
    {"sample.temperature": 0, "sample.top_k": 10**12},
    {"sample.temperature": 5e-324, "sample.top_p": 0.5},
    {"sample.prompts": ["Мой \U0001f600"], "sample.unknown": "replace"},
    {"sample.prompts": ["а\U0001f600"], "sample.unknown": "drop"},
    {"clean.rules": "literary", "clean.optional": ["stress_accents"]},
    {"clean.rules": "literary", "clean.optional": ["stress_accents", "latin_passages"], "sample.prompts": "auto"},
    *[{"clean.rules": "file", "clean.file": file} for file in PATHS if isinstance(file, str)],
    {"download.corpus": "local"},
    *[
        {"download.corpus": "url", "download.url": url, "download.sha256": "a" * 64}
        for url in ADDRESSES
        if url.startswith("http://")
    ],
]
# The same with stage evaluate, which takes ten times as long as all others together: every value of its section is in
# one of these, beside values of other sections that it depends on.
EVALUATE_COMBINATIONS = [
    {"split.train": 0.9, "split.val": 0.1, "split.test": 0, "evaluate.leak_steps": 2,
     "evaluate.attention_sentence": ""},
    {"split.train": 0.01, "split.val": 0.98, "split.test": 0.01, "evaluate.leak_steps": 2},
    {"model.n_layer": 3, "model.n_head": 8, "model.positions": "none", "evaluate.attention_sentence": "Было это",
     "evaluate.leak_steps": 2, "evaluate.attention_windows": 2},
    {"model.positions": "learned", "model.tie_weights": True, "model.bias": True, "evaluate.attention_sentence": "а",
     "evaluate.leak_steps": 2, "evaluate.attention_windows": 1, "evaluate.short_context": 2},
    {"model.dropout": 0.9999999999999999, "model.qk_norm": False, "evaluate.leak_steps": 1},
    {"model.block_size": 146, "train_bigram.block_size": 147, "evaluate.short_context": 146,
     "evaluate.context_chars": 1},
    {"evaluate.context_chars": 10**12, "evaluate.short_context": 16, "evaluate.leak_steps": 1,
     "evaluate.attention_sentence": "\n"},
    {"model.block_size": 2, "evaluate.short_context": 1, "evaluate.context_chars": 2,
     "evaluate.attention_sentence": " "},
    {"model.block_size": 3, "evaluate.short_context": 3, "evaluate.ngram_orders": [8, 3]},
    {"split.train": 0.01, "split.val": 0.49, "split.test": 0.5, "evaluate.ngram_orders": [3, 4, 5, 6, 7, 8]},
    {"model.n_layer": 1, "evaluate.ngram_orders": [3]},
    {"model.n_layer": 1, "evaluate.ngram_orders": [8]},
    {"model.n_layer": 1, "evaluate.ngram_orders": [3, 8]},
    {"evaluate.attention_sentence": "б" * 16},
    {"model.ngrams": "logits", "model.ngram_orders": [1], "model.ngram_dropout": 0.9999999999999999},
    {"model.ngrams": "none", "model.network_loss": 0.5, "evaluate.ngram_orders": []},
    {"model.block_size": 3, "evaluate.short_context": 3, "model.ngram_orders": [12, 2]},
]  # fmt: skip
# What failed once, and how.
FAILED_ONCE = [
    ({"sample.top_p": 5e-324}, "top_p is 0 in float32, so that not even the likeliest character is kept"),
    ({"download.path": "~nobody-of-this-name/a"}, "expanduser raises RuntimeError"),
    ({"download.path": "a" * 5000}, "exists() raises OSError"),
    ({"evaluate.attention_windows": 10**9}, "an array of the requested size for a short text"),
]
