"""The one exception that a user meets."""


class BukvaError(Exception):
    """A mistake in the input, told as one sentence: where it is, what it is, what would do.

    A stage prints the sentence and exits with 1, without a traceback (bukva.cli). Everything else that is
    raised is a fault of the program and keeps its traceback.
    """
