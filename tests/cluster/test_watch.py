"""What a trial does now, read from journals that grow."""

import shutil
import time

import pytest
from imports import ROOT

from bukva.base.units import bits
from bukva.cluster.watch import Watch
from bukva.config.load import read_params
from bukva.tracking.writing import Log


@pytest.fixture
def params(tmp_path, monkeypatch):
    found = read_params()
    (tmp_path / ".dvc").mkdir()
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))
    monkeypatch.setenv("DVC_EXP_NAME", "one")
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "1" * 40)
    return found


@pytest.mark.parametrize("restored", [(), ("train-bigram",), ("train-gpt",)])
def test_val_is_that_of_the_last_training_although_publish_tells_later_what_dvc_restored(params, restored):
    watch, vals = Watch("one", "1" * 40), {"train-bigram": 4.0, "train-gpt": 2.0}
    ran = [stage for stage in vals if stage not in restored]
    for stage in [*ran, "sample", *restored]:
        log = Log(stage, params, restored=stage in restored)
        if stage in vals:
            log.metrics({"val_nats_per_char": vals[stage], "best_val_nats_per_char": vals[stage]}, 100)
        log.end("FINISHED")
        time.sleep(0.01)
    last = watch.news()[-1]
    assert (last.stage, last.n_steps, last.val, last.best) == ("sample", 0, bits(2.0), bits(2.0))
