"""Speed, memory and accuracy against named peers, as ratios measured in one run."""
