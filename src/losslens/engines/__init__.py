"""Who fills the cells. One small interface; `choice` is the one place that picks an engine."""

from losslens.engines.base import Answer, Ask, Engine, Met
from losslens.engines.blackbox import BlackBox
from losslens.engines.choice import choose, choose_exact
from losslens.engines.exact import Site

__all__ = ["Answer", "Ask", "BlackBox", "Engine", "Met", "Site", "choose", "choose_exact"]
