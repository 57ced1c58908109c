"""Rows in Dask's partitions, worked on where they are; nothing else imports Dask."""

from toppush.designs.cluster import lists
from toppush.designs.cluster.design import ClusterDesign
from toppush.designs.cluster.rows import ClusterRows, place
from toppush.designs.cluster.workers import LostRows

__all__ = ["ClusterDesign", "ClusterRows", "LostRows", "lists", "place"]
