"""The functions that users call: each checks its arguments and calls the rooms below.

Touches everything below; nothing but the command line touches it.
"""
