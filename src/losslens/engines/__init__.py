"""Who answers for a feature: exact engines know the model, the black box asks it.

`base` says what every engine tells of itself, and `choice` picks one; passes over the rows are in another room.
"""
