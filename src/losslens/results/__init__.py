"""The results of verbs (frozen dataclasses of arrays, one module a kind of result), and their file format.

Imports uncertainty, cells and the rooms below; plots only inside `.plot()`. Results hold no model and no table.
"""
