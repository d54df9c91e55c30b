"""The password of a Ray cluster."""

from bukva.cluster.ray_access import make_token


def test_the_token_is_made_once_and_only_its_user_may_read_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    token = make_token()
    before = token.read_text()
    assert len(before) == 64
    assert token.stat().st_mode & 0o777 == 0o600
    assert make_token().read_text() == before
