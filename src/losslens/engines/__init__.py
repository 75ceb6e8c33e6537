"""Who fills the cells. One small interface; `choice` is the one place that picks an engine."""

from losslens.donors.questions import Ask, Met
from losslens.engines.base import Answer, Engine
from losslens.engines.blackbox import BlackBox
from losslens.engines.choice import Site, choose, choose_exact

__all__ = ["Answer", "Ask", "BlackBox", "Engine", "Met", "Site", "choose", "choose_exact"]
