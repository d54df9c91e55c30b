"""What keeps comparisons honest: the file of noise floors, and the count of looks at test scores."""

from statistics import stdev

import pytest

from bukva.compare import records
from bukva.compare.groups import groups
from bukva.core.errors import BukvaError
from tests.compare.made import result

VAL, TEST = [2.51, 2.53, 2.52, 2.58], [2.61, 2.60, 2.66, 2.62]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))
    return tmp_path


@pytest.fixture
def seeds(tmp_path):
    """A function that makes a group of k seeds of a configuration."""

    def make(k, **changes):
        folder = tmp_path / f"{k} {changes}"
        made = [
            result(folder, f"s{seed}", {"train_gpt.seed": seed, **changes}, val=VAL[seed], test=TEST[seed])
            for seed in range(k)
        ]
        (group,) = groups(made, "gpt")
        return group

    return make


def test_the_floor_of_a_family_pools_the_variances_of_groups_by_their_degrees_of_freedom(project, seeds):
    four, two = seeds(4), seeds(2, **{"model.n_head": 2})
    adamw = seeds(3, **{"train_gpt.optimizer": "adamw"})
    assert records.merge([four, two, adamw])
    together = (project / records.FILE).read_bytes()
    (project / records.FILE).unlink()
    for group in (two, adamw, four):
        records.merge([group])
    assert (project / records.FILE).read_bytes() == together
    assert records.floor(adamw.family, "val").df == 2
    assert records.floor("unknown", "val").df == 0
    for split, scores in (("val", VAL), ("test", TEST)):
        found = records.floor(four.family, split)
        assert found.df == 3 + 1
        assert found.sd**2 == pytest.approx((3 * stdev(scores) ** 2 + stdev(scores[:2]) ** 2) / 4, rel=1e-4)


def test_a_group_grows_from_two_seeds_and_never_shrinks(project, seeds):
    assert not records.merge([seeds(1)])
    assert not (project / records.FILE).exists()
    two, three, four = (seeds(k) for k in (2, 3, 4))
    assert records.merge([two])
    assert records.merge([four])
    before = (project / records.FILE).read_bytes()
    assert not any(records.merge(groups) for groups in ([three], [four], []))
    assert (project / records.FILE).read_bytes() == before


def test_the_noise_floor_that_git_tracks_is_read_and_only_a_copy_of_it_is_written(project, seeds):
    shared, own = project / records.SHARED, project / records.FILE
    two, three = seeds(2), seeds(3)
    assert records.merge([two])
    shared.parent.mkdir()
    own.rename(shared)  # as a team shares it
    before = shared.read_bytes()
    assert records.floor(two.family, "val").df == 1
    assert not records.merge([two])
    assert not own.exists()
    assert records.merge([three])
    assert records.floor(two.family, "val").df == 2
    assert shared.read_bytes() == before


@pytest.mark.parametrize("content", ["{", "{}", '{"groups": [{"k": 3}]}'])
def test_a_damaged_file_is_one_sentence(project, content):
    file = project / records.SHARED
    file.parent.mkdir()
    file.write_text(content)
    with pytest.raises(BukvaError, match=rf"^{file} is not valid\. Restore or delete this file\."):
        records.floor("family", "val")


def test_each_text_has_its_own_count(project):
    assert [records.looks_at_test(text, more=1) for text in "aab"] == [1, 2, 1]
    assert [records.looks_at_test(text) for text in "abc"] == [2, 1, 0]
