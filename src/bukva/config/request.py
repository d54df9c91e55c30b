"""What a request to a served model may have: columns of its rows, and parameters.

MLflow's signature of a model (tracking/models/saving.py) and the code that answers (serving/answers.py) share them.
"""

PROMPT, TEXT = "prompt", "text"  # columns of the input
CONTINUATION, BITS = "continuation", "bits_per_char"  # columns of the output
SETTINGS = {  # keys of section sample that a request may set, with MLflow's types
    "n_chars": "long",
    "temperature": "double",
    "top_k": "long",
    "top_p": "double",
    "seed": "long",
    "unknown": "string",
}
MOST_CHARS = 10_000  # that a request may ask for in a row: it has some seconds, not a day
