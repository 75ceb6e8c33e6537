"""The interactive report: results become a dict, the dict becomes one HTML page.

Touches results; see README.md in this folder.
"""
