"""The functions that users call: each checks its arguments and calls the rooms below.

Touches everything below; nothing but the command line touches it.
"""

# Methods of results that take the model stand in modules that no other module imports.
from losslens.verbs import blocks as blocks
from losslens.verbs import more as more
from losslens.verbs import sufficient as sufficient
