"""Engines that compute on the device a torch tensor lives on. Nothing here is imported before somebody asks for it."""
