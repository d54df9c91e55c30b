"""The cleaning rules of the lecture notes in plain code, line by line. Tests compare the rule set `notes` with it."""

import io

PREFIXES = ("- ", "\u2013\u00a0", "\u2014 ", "-- ")
LATIN = "abcdefghjklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZÇÉÊÔÜßàáâäçèéêëíîïòóôöùúûüýœ"  # i is missing
OTHER = "\u0457\u0463"  # yi, yat
GREEK = "".join(map(chr, [*range(0x0370, 0x0400), *range(0x1F00, 0x2000)]))
FOREIGN = set(LATIN + OTHER + GREEK)
EXCLUDE = set("_`|~§*#0123456789\t\u0001\u007f«»½\u040c€№¾=()[]{}°<>“”„\"…%'@^\u2011⟨⟩")


def clean_lines(text: str) -> str:
    cleaned = []
    for line in io.StringIO(text, newline=None):
        line = line.lstrip()
        if line == "":
            continue
        for prefix in PREFIXES:
            if line.startswith(prefix):
                line = line[len(prefix) :]
                break
        if any(symbol in FOREIGN for symbol in line):
            continue
        line = "".join(symbol for symbol in line if symbol not in EXCLUDE)
        cleaned.append(line.replace("//", ". ").replace("/", "").removesuffix("\n") + "\n")
    return "".join(cleaned)
