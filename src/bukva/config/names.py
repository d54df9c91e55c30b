"""The valid values of parameters that choose an entry of a table, by the names of those tables.

The tables map names to code, some of it torch code, and importing torch takes seconds in a light stage. So their names
are repeated here for validation; tests/config/test_names.py compares both.
"""

# corpus/sources/formats/encodings.py
ENCODINGS = (
    "auto", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32",
    "cp1251", "koi8-r", "cp866", "iso8859-5", "mac-cyrillic", "koi8-u",
    "gb18030", "shift-jis", "euc-jp", "euc-kr", "big5",
    "cp1252", "iso8859-15", "cp1250", "iso8859-2", "cp1253", "cp1254", "cp1257", "mac-roman",
    "cp1255", "cp1256", "cp1258", "cp874",
)  # fmt: skip

# text/tokenizers
TOKENIZERS = ("char", "byte", "bpe")

# models/gpt.py
NORMS = ("layernorm", "rmsnorm")
ACTIVATIONS = ("gelu", "relu", "relu2")

# training/optimizers
OPTIMIZERS = ("adamw", "muon")
