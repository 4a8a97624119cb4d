"""Exact and numerical rank of label matrices."""

from schirn.lab.rank._exact import RankReport, exact_rank, rank_report

__all__ = ["RankReport", "exact_rank", "rank_report"]
