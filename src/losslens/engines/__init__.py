"""Engines predict a feature's cells: exact ones from the model's parameters, the black box by its predict function.

`base` is the interface of all engines, and `choice` picks one; passes over the rows are in `losslens.passes`.
"""
