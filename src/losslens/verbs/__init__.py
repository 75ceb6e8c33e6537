"""What users call: check the arguments, then one line a step.

Touches everything below; nothing but the command line touches it.
"""
