"""Which values a row receives: designs, samplers, the layout of the cell matrix, and the question put to an engine.

Touches tables; knows neither models nor losses.
"""
