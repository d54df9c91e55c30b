"""The DVC project: stages in dvc.yaml, results in dvc.lock, experiments in git, the cache, and the baseline."""
