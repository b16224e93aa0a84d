"""The live page: a search on its way as one HTML page that is written again and again."""

from supac.report.live.page import make_live_page

__all__ = ["make_live_page"]
