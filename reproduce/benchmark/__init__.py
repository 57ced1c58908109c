"""The benchmark: `TopRanker` against common rankers on all data sets and raw tables."""
