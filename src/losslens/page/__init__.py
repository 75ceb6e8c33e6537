"""The interactive report: results become a dict, the dict becomes one HTML page.

It imports results only; README.md in this folder has the format of the dict and how the page works.
"""
