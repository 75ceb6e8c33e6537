"""The same pass over data larger than memory, part by part.

Touches what `passes` touches.
"""
