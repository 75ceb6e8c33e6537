"""Engines that compute on a torch device. Nothing here is imported before a device is requested."""
