"""What verbs return: frozen, arrays only, one file a result; and saving and loading them.

Touches uncertainty, cells and game theory; plots only inside `.plot()`. Never a model or a table.
"""
