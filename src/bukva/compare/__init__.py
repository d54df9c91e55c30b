"""What differences between experiments are worth: statistics, comparisons, the leaderboard."""
