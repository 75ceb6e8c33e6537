"""One call, step by step: task, questions, engine, losses, means. `parts` does the same for data read in parts.

Touches engines and results.
"""
