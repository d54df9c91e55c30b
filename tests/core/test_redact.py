"""Passwords and tokens in addresses do not reach error messages (MLflow and pages: tests/dvc/test_secrets.py)."""

from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bukva.core.errors import BukvaError, redact_text, redact_url
from bukva.core.params import PARAMS, parse_params, read_params, read_yaml
from tests.support.imports import SHIPPED

RAW = read_yaml(SHIPPED)
MARK = "СЕКРЕТ"
HUB = f"hf://datasets/o/n@{'c' * 40}"

# A generated secret repeats the mark after each character at which an address may be split.
pasted = st.lists(st.sampled_from([*"@:/?#&=%;,+!*[]()|\\~", "//", "://", "щ", "%40", "\U0001f511"]), max_size=6).map(
    lambda between: MARK + "".join(f"{char}{MARK}" for char in between)
)
addresses = st.builds(
    lambda scheme, user, password, place, token: f"{scheme}://{user}:{password}@{place}?key={token}",
    st.sampled_from(["http", "https", "postgresql+psycopg2", "sqlite"]),
    st.just("me") | pasted,
    pasted,
    st.sampled_from(["host/a.txt", "host:5000", "127.0.0.1:80/a/b.zip", "[::1]:80/a"]),
    st.just("") | pasted,
)


@settings(max_examples=60)
@given(addresses)
@example(f"postgresql://me:{MARK}/12@host/db")
@example(f"https://host/a?key=a@{MARK}")
@example(f"https://me:1/{MARK}@host")
def test_an_address_and_a_text_with_one_lose_their_secrets(address):
    assert MARK not in redact_url(address)
    assert redact_url(address).startswith(address.partition("://")[0])
    assert MARK not in redact_text(ValueError(f"cannot reach {address} : no route"))


@pytest.mark.parametrize(
    ("address", "redacted"),
    [
        ("https://host:81/a%40/b.txt", "https://host:81/a%40/b.txt"),
        ("https://host/a.txt?key=1#x", "https://host/a.txt"),
        ("https://me:word@host:81/a.txt", "https://***@host:81/a.txt"),
        ("https://me:wo#rd@host/a.txt", "https://***"),  # the part after # may be a password or a fragment
        ("https://me:word", "https://***"),  # the part after the colon may be a password or a port
        ("example.org/a.txt", "example.org/a.txt"),
        (HUB, HUB),
        (f"{HUB}/data/train-*", f"{HUB}/data/train-*"),  # the @ follows the name of the dataset
        ("hf://datasets/o/n/data", "hf://datasets/o/n/data"),
        (f"hf://datasets/o/n@hf_{MARK}/data", "hf://***"),
        (f"hf://hf_{MARK}@datasets/o/n", "hf://***"),
        (f"{HUB}@{MARK}", f"{HUB}***"),
    ],
)
def test_the_public_part_of_an_address_is_kept(address, redacted):
    assert redact_url(address) == redacted
    text = "no route to {} write to me@host"
    assert redact_text(text.format(f"{address}:")) == text.format(f"{redacted}:")


def rejection(**download):
    with pytest.raises(BukvaError) as error:
        parse_params(RAW | {"download": RAW["download"] | download}, "params.yaml")
    return str(error.value)


def test_an_address_with_a_user_is_rejected_and_not_shown_and_no_mistake_elsewhere_shows_one():
    for corpus in ("sample", "url"):
        message = rejection(corpus=corpus, url=f"https://me:{MARK}/{MARK}@host/a.txt?key={MARK}", sha256="a" * 64)
        assert message.startswith("params.yaml, download.url: 'https://***")
        assert "~/.netrc" in message
        assert MARK not in message
    address = f"https://me:{MARK}@host/a.txt?key={MARK}"
    bare = address.partition("://")[2]
    for url in (address, bare, [address], {"https": bare}, {address: 1}, [[bare]]):
        for key in ("url", "ulr", "corpus", "sha256", "extensions"):
            assert MARK not in rejection(**{key: url})


def test_a_broken_file_does_not_show_an_address(tmp_path):
    text, url = SHIPPED.read_text(encoding="utf-8"), f"https://me:{MARK}@host/a.txt?key={MARK}"
    for line in (f"{url}\n  url: {url}", f"{url}: x", f"!!int {url}", f"*{url}", f"!{url} a", f"'{url}", f"[{url}"):
        (tmp_path / PARAMS).write_text(text.replace("url: ''", f"url: {line}"), encoding="utf-8")
        with pytest.raises(BukvaError, match=r"line \d+, column \d+|https://\*\*\*") as error:
            read_params(tmp_path / PARAMS)
        assert MARK not in str(error.value)


def test_an_error_hides_secrets_of_the_environment_but_no_ordinary_words(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", f"{MARK}!")
    monkeypatch.setenv("OTHER_TOKEN", "the")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    error = BukvaError(f"the server at https://host:81: {MARK}! and {quote(MARK + '!')} are false.")
    assert str(error) == "the server at https://host:81: *** and *** are false."
