"""Stage baselines: count the n-grams of the training split, and score n-grams and compressors on val and test."""

from concurrent.futures import ThreadPoolExecutor

from bukva.evaluation.baselines import compress, score
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.ngrams.stored import save_counts
from bukva.scoring.char_scores import save_scores
from bukva.text.collection import read_table, works_in
from bukva.text.held_out import HeldOut
from bukva.text.ids import load_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer
from stages import stage


def main() -> None:
    with stage.opened("baselines") as run, ThreadPoolExecutor(1) as executor:
        chosen, splits = run.params.baselines, load_splits(run.path("split"))
        text = HeldOut(splits, load_lengths(run.path("split")), load_tokenizer(run.path("tokens")))
        ngrams = None
        compressed = executor.submit(compress, text)  # counting uses only one core
        if chosen.max_order:
            print(f"baselines: counting the n-grams of train, up to order {chosen.max_order}", flush=True)
            ngrams = KneserNey.count(splits["train"], len(text.tokenizer), chosen.max_order)
        else:
            print("baselines: no n-grams are counted, because `baselines.max_order` is 0")
        save_counts(run.path("ngrams"), splits["train"], ngrams)
        print("baselines: scoring n-grams and compressors", flush=True)
        scores = score(text, ngrams, compressed.result())
        works = list(works_in(read_table(run.path("clean"))))
        save_scores(run.path("baselines"), scores.to_json() | text.describe(), works, text.chars, scores.nats)
        best_bits = scores.table["val"][scores.best]
        print(f"baselines: the best baseline on val is {scores.best} with {best_bits:.3f} bits per character")


if __name__ == "__main__":
    stage.run(main)
