"""Comparison of experiments: statistics, verdicts and the leaderboard."""
