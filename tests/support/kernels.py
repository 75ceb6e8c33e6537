"""Parts of kernels as kernels that Python can call."""

from inspect import signature

from losslens.engines.compiled import compiled


def called(part):
    """A kernel that does nothing but call a part."""
    part.compile(None)
    names = ", ".join(signature(part.py_func).parameters)
    return compiled(part.nopython_signatures[0])(eval(f"lambda {names}: part({names})", {"part": part}))
