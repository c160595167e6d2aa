"""`fluid.incubate.fleet.utils`: files of HDFS, and what scripts of online learning do each pass."""

from refluid.fluid.incubate.fleet.utils import fleet_util, hdfs, utils

__all__ = ["fleet_util", "hdfs", "utils"]
