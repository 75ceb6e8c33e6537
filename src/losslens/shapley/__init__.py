"""How performance is shared out among features: games, ways to play them, walks.

Touches passes and engines.
"""
