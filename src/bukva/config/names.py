"""Define the valid names of encodings, tokenizers, norms, activations and optimizers in params.yaml.

Other modules map each name to its implementation (see the comments below). The names are repeated here, because some
of these modules import torch, which takes seconds. tests/config/test_names.py checks that the names agree.
"""

# implemented in corpus/sources/formats/encodings.py
ENCODINGS = (
    "auto", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32",
    "cp1251", "koi8-r", "koi8-u", "iso8859-5", "mac-cyrillic",
    "gb18030", "big5hkscs", "cp932", "euc-jp", "cp949",
    "cp1252", "iso8859-15", "mac-roman", "cp1250", "iso8859-2", "iso8859-16", "cp1257", "iso8859-13",
    "cp1253", "iso8859-7", "cp1254", "cp1255", "iso8859-8", "cp1256", "iso8859-6", "cp1258", "cp874",
    "cp437", "cp850", "cp860", "cp861", "cp863", "cp865", "cp852", "cp775", "cp866", "cp855", "cp1125",
    "cp737", "cp869", "cp857", "cp862", "cp864", "cp720",
    "iso2022-jp", "iso2022-kr", "hz", "shift-jis", "euc-kr", "big5",
)  # fmt: skip

# implemented in text/tokenizers
TOKENIZERS = ("char", "byte", "bpe")

# implemented in models/gpt.py
NORMS = ("layernorm", "rmsnorm")
ACTIVATIONS = ("gelu", "relu", "relu2")

# implemented in training/optimizers
OPTIMIZERS = ("adamw", "muon")
