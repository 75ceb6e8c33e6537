"""Torch modules, on the device that they are on. Nothing here is imported before a model is one."""
