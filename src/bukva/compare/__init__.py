"""Compare experiments: compute statistics and verdicts, and rank all experiments in a leaderboard."""
