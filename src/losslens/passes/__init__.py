"""One call, step by step: task, questions, engine, losses, means. `parts` does the same over files, part by part.

Touches engines and results.
"""
