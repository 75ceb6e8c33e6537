"""Who fills the cells. One small interface; `choose` is the one place that picks an engine."""

from losslens.engines.base import Answer, Ask, Engine, Met
from losslens.engines.blackbox import BlackBox
from losslens.engines.choice import choose

__all__ = ["Answer", "Ask", "BlackBox", "Engine", "Met", "choose"]
