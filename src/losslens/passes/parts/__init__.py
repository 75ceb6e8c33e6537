"""The same for data larger than memory, which are read in parts.

Touches what `passes` touches.
"""
